"""Follow numbers through sums, products of matrices and norms: a source is a number with a gradient that is not 0."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from course_lib.recorder import Step

from .calling import call_again, cells_by_element
from .shown import ShownTensor

CONTRACTIONS = {
    *("matmul", "rmatmul", "imatmul", "bmm", "mm", "mv", "dot", "inner", "outer", "einsum", "linear", "addmm"),
    *("baddbmm", "tensordot", "bilinear"),
}
FUSED = "scaled_dot_product_attention"
HUGE = 1e4  # a score of at least that size hides a token, and so keeps its value
SMALLEST = 1e-12  # a gradient below is rounding


def by_gradient(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Tensor | None] | None:
    """Return the sources of computed numbers, from the gradients of the recorded call in float64.

    The numbers are random, so that no gradient is 0 by chance; zeros, infinities and masks stay as they are.
    """
    if step.op.startswith("arg") or step.effect == "in-place":
        return None
    real = [i for i, one in enumerate(inputs) if one.dtype.is_floating_point]
    if not real:
        real = [i for i, one in enumerate(inputs) if one.dtype != torch.bool and step.op in CONTRACTIONS]
    found = {i: cells_by_element(result, inputs[i]) for i in real}
    instead = [_stand_in(tensor, i in real) for i, tensor in enumerate(step.call.tensors)]
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
        output = call_again(_without_dropout(step), instead).flatten()
        for cell, element in enumerate(result.cells.tolist()):
            wanted = [instead[i] for i in real]
            gradients = torch.autograd.grad(output[element], wanted, retain_graph=True, allow_unused=True)
            for i, gradient in zip(real, gradients, strict=True):
                if gradient is not None:
                    found[i][cell] = (gradient.abs() > SMALLEST).flatten()
    if step.op in CONTRACTIONS:  # a term is a product: it adds nothing if this factor is 0
        for i in real:
            found[i] &= (instead[i].detach() != 0).flatten()[None, :]
    return [found[i] if i in found else _of_mask(step, result, one) for i, one in enumerate(inputs)]


def _stand_in(tensor: Tensor, real: bool) -> Tensor:
    tensor = tensor.detach().cpu()
    if not real:
        return tensor
    value = tensor.double()
    generator = torch.Generator().manual_seed(0)
    drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 0.8 + 0.1
    keep = (value == 0) | ~value.isfinite() | (value.abs() >= HUGE)
    return torch.where(keep, value, drawn * value.sign()).requires_grad_()


def _without_dropout(step: Step) -> Step:
    """Return the step with fused attention that drops nothing, because another run would drop other weights."""
    from dataclasses import replace

    if step.op != FUSED:
        return step
    args = [*step.call.args]
    args[4:5] = [0.0] * len(args[4:5])
    kwargs = step.call.kwargs | ({"dropout_p": 0.0} if "dropout_p" in step.call.kwargs else {})
    return replace(step, call=step.call._replace(args=tuple(args), kwargs=kwargs))


def _of_mask(step: Step, result: ShownTensor, mask: ShownTensor) -> Tensor | None:
    """Return the row of the mask that each context of fused attention reads; None for any other operation."""
    if step.op != FUSED:
        return None
    found = cells_by_element(result, mask)
    key_len = mask.shape[-1]
    numbers = torch.arange(mask.numel).view(mask.shape)
    rows = numbers[..., 0].expand(result.shape[:-1])[..., None].expand(result.shape)
    first = rows.flatten()[result.cells]
    for key in range(key_len):
        found[torch.arange(len(first)), first + key] = True
    return found
