"""Follow numbers through operations that compute each number from those at the same place, with broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import TO_TYPE, Step

from .calling import cells_by_element
from .shown import ShownTensor

NAMES = TO_TYPE | {
    *("add", "sub", "subtract", "rsub", "radd", "mul", "multiply", "rmul", "div", "divide", "true_divide", "truediv"),
    *("rtruediv", "rdiv", "floordiv", "floor_divide", "rfloordiv", "mod", "remainder", "fmod", "pow", "rpow", "neg"),
    *("negative", "abs", "sign", "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "square"),
    *("reciprocal", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "relu", "gelu", "silu", "elu", "leaky_relu"),
    *("softplus", "relu6", "hardtanh", "clamp", "clip", "clamp_min", "clamp_max", "round", "floor", "ceil", "trunc"),
    *("eq", "ne", "lt", "le", "gt", "ge", "less", "greater", "less_equal", "greater_equal", "not_equal"),
    *("logical_and", "logical_or", "logical_not", "logical_xor", "and", "or", "xor", "invert", "rand", "ror"),
    *("bitwise_and", "bitwise_or", "bitwise_not", "bitwise_xor", "where", "masked_fill", "tril", "triu", "dropout"),
    *("maximum", "minimum", "isnan", "isinf", "isfinite", "nan_to_num", "lerp", "addcmul", "addcdiv", "bernoulli"),
    *("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "fill_", "zero_", "detach", "alpha_dropout"),
}
NOT_READ = ("zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "fill_", "zero_")  # only the shape is


def elementwise(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Tensor | None] | None:
    """Return the sources of numbers that are computed place by place, or None if the operation is another one."""
    op = step.op.removesuffix("_") if step.op not in NOT_READ else step.op
    if op not in NAMES and op.removeprefix("i") not in NAMES:
        return None
    kept = _kept(op, step, inputs)
    found: list[Tensor | None] = []
    for i, one in enumerate(inputs):
        table = cells_by_element(result, one)
        if op not in NOT_READ:
            places = torch.arange(one.numel).view(one.shape).expand(result.shape).flatten()[result.cells]
            cells = torch.arange(len(places))
            if (keep := kept.get(i)) is not None:
                read = keep.expand(result.shape).flatten()[result.cells]
                cells, places = cells[read], places[read]
            table[cells, places] = True
        found.append(table)
    return found


def _kept(op: str, step: Step, inputs: Sequence[ShownTensor]) -> dict[int, Tensor]:
    """Return which numbers of an input are read, for the inputs that are read in part."""
    tensors = step.call.tensors
    if op in ("tril", "triu"):
        diagonal = step.call.kwargs.get("diagonal", step.call.args[1] if len(step.call.args) > 1 else 0)
        return {0: getattr(torch.ones(inputs[0].shape), op)(diagonal) > 0}
    if op == "masked_fill":
        mask = next(i for i, tensor in enumerate(tensors) if tensor.dtype == torch.bool)
        return {i: tensors[mask].cpu() == (i > mask) for i in range(len(inputs)) if i != mask}
    if op == "where" and isinstance(step.call.args[0], Tensor) and step.call.func is torch.where:
        condition, one, other = step.call.args[:3]
        of = {id(tensor): i for i, tensor in enumerate(tensors)}
        condition = condition.cpu()
        kept = {of[id(other)]: ~condition} if isinstance(other, Tensor) else {}
        return kept | ({of[id(one)]: condition} if isinstance(one, Tensor) and one is not other else {})
    return {}
