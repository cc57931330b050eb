"""Follow numbers through sums, products of matrices and norms: a source is a number with a gradient that is not 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import Step

from .calling import call_again, cells_by_element
from .shown import ShownTensor

CONTRACTIONS = {
    *("matmul", "rmatmul", "imatmul", "bmm", "mm", "mv", "dot", "inner", "outer", "einsum", "linear", "addmm"),
    *("baddbmm", "tensordot", "bilinear"),
}
HUGE = 1e4  # a score of at least that size hides a token, and so keeps its value
SMALLEST = 1e-12  # a gradient below is rounding


def by_gradient(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Tensor | None] | None:
    """Return the sources of computed numbers, from the gradients of the recorded call in float64.

    The numbers are random, so that no gradient is 0 by chance, but in the order of the real ones by size, so that a
    maximum selects the same. Zeros, infinities and masks stay as they are.
    """
    if step.op.startswith("arg"):
        return None
    real = [i for i, one in enumerate(inputs) if one.dtype.is_floating_point]
    if not real:
        real = [i for i, one in enumerate(inputs) if one.dtype != torch.bool and step.op in CONTRACTIONS]
    found = {i: cells_by_element(result, inputs[i]) for i in real}
    instead = [_stand_in(tensor, i in real) for i, tensor in enumerate(step.call.tensors)]
    with torch.enable_grad():
        # A call may write into its tensors, which are copies then: gradients need the originals.
        given = [one.clone() for one in instead] if step.effect == "in-place" else instead
        output = call_again(step, given).flatten()
        for cell, element in enumerate(result.cells.tolist()):
            wanted = [instead[i] for i in real]
            gradients = torch.autograd.grad(output[element], wanted, retain_graph=True, allow_unused=True)
            for i, gradient in zip(real, gradients, strict=True):
                if gradient is not None:
                    found[i][cell] = (gradient.abs() > SMALLEST).flatten()
    return [found.get(i) for i in range(len(inputs))]


def _stand_in(tensor: Tensor, real: bool) -> Tensor:
    tensor = tensor.detach().cpu()
    if not real:
        return tensor
    value = tensor.double()
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 0.8 + 0.1
    drawn.view(-1)[value.abs().flatten().argsort(stable=True)] = drawn.flatten().sort().values
    keep = (value == 0) | ~value.isfinite() | (value.abs() >= HUGE)
    return torch.where(keep, value, drawn * value.sign()).requires_grad_()
