"""Follow numbers through sums, products of matrices and norms: a source is a number with a gradient that is not 0."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import Step

from .recorded_call import Table, call_again, cells_by_element
from .shown_tensor import ShownTensor

CONTRACTIONS = {
    *("matmul", "rmatmul", "imatmul", "bmm", "mm", "mv", "dot", "inner", "outer", "einsum", "linear", "addmm"),
    *("baddbmm", "tensordot", "bilinear"),
}
PRODUCTS = CONTRACTIONS | {"conv1d", "conv2d", "conv3d", "prod", "cumprod"}  # where a 0 hides other factors
HUGE = 1e4  # a score of at least that size hides a token, and so keeps its value
SMALLEST = 1e-12  # a gradient below is rounding


def gradient_sources(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Table] | None:
    """Return the sources of computed numbers, from the gradients of the recorded call in float64.

    The numbers are random, so that no gradient is 0 by chance, but in the order of the real ones by size, so that a
    maximum selects the same. Infinities and masks stay as they are, and so do zeros that are factors: at 0 the slope
    of a norm would be 0, although every other number there changes it.
    """
    if step.op.startswith("arg"):
        return None
    real = [i for i, source in enumerate(inputs) if source.dtype.is_floating_point]
    if not real:
        real = [i for i, source in enumerate(inputs) if source.dtype != torch.bool and step.op in CONTRACTIONS]
    for i in real:
        cells_by_element(result, inputs[i])  # raises for too many, before anything is run
    lost = [source.is_overwritten_after(step.number) for source in inputs]
    instead = [_stand_in(tensor, i in real, lost[i], step.op in PRODUCTS) for i, tensor in enumerate(step.call.tensors)]
    with torch.enable_grad():
        output, real = _with_gradients(step, instead, real)
        tables = {i: cells_by_element(result, inputs[i]) for i in real}
        for cell, element in enumerate(result.cells.tolist()):
            wanted = [instead[i] for i in real]
            gradients = torch.autograd.grad(output[element], wanted, retain_graph=True, allow_unused=True)
            for i, gradient in zip(real, gradients, strict=True):
                if gradient is not None:
                    tables[i][cell] = (gradient.abs() > SMALLEST).flatten()
    return [tables.get(i) for i in range(len(inputs))]


def _with_gradients(step: Step, instead: Sequence[Tensor], real: Sequence[int]) -> tuple[Tensor, Sequence[int]]:
    """Return the numbers of the call's result on other tensors, and by which of these they can be differentiated.

    That is all of those given or, as with the statistics of a normalisation, those by which it works one by one.
    """

    def run(by: Sequence[int]) -> Tensor:
        values = [value.requires_grad_(False) for value in instead]
        for i in by:
            values[i].requires_grad_()
        # A call may write into its tensors, which are copies then: gradients need the originals.
        values = [value.clone() for value in values] if step.effect == "in-place" else values
        return call_again(step, values).flatten()

    def works(i: int) -> bool:
        try:
            return run([i]).requires_grad
        except RuntimeError:
            return False

    try:
        return run(real), real
    except RuntimeError:
        real = [i for i in real if works(i)]
        return run(real), real


def _stand_in(tensor: Tensor, real: bool, lost: bool, keep_zeros: bool) -> Tensor:
    tensor = tensor.detach().cpu()
    if not real:
        return tensor
    value = tensor.double()
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 0.8 + 0.1
    drawn.view(-1)[value.abs().flatten().argsort(stable=True)] = drawn.flatten().sort().values
    keep = ((value == 0) & keep_zeros) | ~value.isfinite() | (value.abs() >= HUGE)
    return drawn if lost else torch.where(keep, value, drawn.copysign(value))
