"""Follow numbers through elementwise operations, with broadcasting."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import TO_TYPE, Step

from .recorded_call import Table, cells_by_element
from .shown_tensor import ShownTensor
from .unread_inputs import is_making, unread_inputs

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
    *("detach", "alpha_dropout"),
}
ADDITIONS = {"add": 1, "iadd": 1, "radd": 1, "sub": -1, "isub": -1, "subtract": -1}  # sign of the second number
DIVISIONS = ("div", "divide", "true_divide", "truediv")
ANDS, ORS = ("logical_and", "bitwise_and", "and", "iand"), ("logical_or", "bitwise_or", "or", "ior")
HUGE = 1e4  # a mask of numbers adds at least that much to a score that it hides


def elementwise_sources(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Table] | None:
    """Return the sources of an elementwise operation, or None for other operations."""
    op = step.op if is_making(step.op) else step.op.removesuffix("_")
    of_two = op in ("max", "min") and len(inputs) == 2
    if not (is_elementwise(op) or is_making(op) or of_two):
        return None
    kept = _kept(op, step, inputs)
    no_sources = set(map(id, unread_inputs(step)))
    tables: list[Table] = []
    for i, (source, tensor) in enumerate(zip(inputs, step.call.tensors, strict=True)):
        table = cells_by_element(result, source)
        if id(tensor) not in no_sources:
            places = torch.arange(source.numel).view(source.shape).expand(result.shape).flatten()[result.cells]
            cells = torch.arange(len(places))
            if (keep := kept.get(i)) is not None:
                read = keep.expand(result.shape).flatten()[result.cells]
                cells, places = cells[read], places[read]
            table[cells, places] = True
        tables.append(table)
    return tables


def is_elementwise(op: str) -> bool:
    """Return whether an operation is elementwise."""
    return op in NAMES or op.removeprefix("i") in NAMES


def _kept(op: str, step: Step, inputs: Sequence[ShownTensor]) -> dict[int, Tensor]:
    """Return which numbers of an input are read, for each input that is read only in part."""
    tensors = step.call.tensors
    if op in ("tril", "triu"):
        diagonal = step.call.kwargs.get("diagonal", step.call.args[1] if len(step.call.args) > 1 else 0)
        return {0: getattr(torch.ones(inputs[0].shape), op)(diagonal) > 0}
    if op == "masked_fill":
        mask = next(i for i, tensor in enumerate(tensors) if tensor.dtype == torch.bool)
        return {i: tensors[mask].cpu() == (i > mask) for i in range(len(inputs)) if i != mask}
    if op == "where":
        return _of_where(step)
    if op.removeprefix("i") in DIVISIONS and len(tensors) == 2 and not inputs[0].is_overwritten_after(step.number):
        return {1: tensors[0].detach().cpu() != 0}
    if (op in ADDITIONS or op.removeprefix("i") == "mul") and len(tensors) == 2:
        return _not_hidden(op, step, inputs)
    if op in ANDS + ORS and len(tensors) == 2 and all(tensor.dtype == torch.bool for tensor in tensors):
        known = (i for i in (0, 1) if not inputs[1 - i].is_overwritten_after(step.number))
        return {i: tensors[1 - i].detach().cpu() == (op in ANDS) for i in known}
    return {}


def _of_where(step: Step) -> dict[int, Tensor]:
    """Return where `torch.where(condition, x, y)` or `x.where(condition, y)` takes a number of x, and where of y."""
    names = ("input", "condition", "other") if step.call.func is Tensor.where else ("condition", "input", "other")
    arguments = dict(zip(names, step.call.args, strict=False)) | step.call.kwargs
    condition, base, other = arguments["condition"], arguments.get("input", arguments.get("self")), arguments["other"]
    of = {id(tensor): i for i, tensor in enumerate(step.call.tensors)}
    if base is other or condition is base or condition is other:
        return {}
    taken = ((base, condition.cpu() != 0), (other, condition.cpu() == 0))
    return {of[id(choice)]: where for choice, where in taken if isinstance(choice, Tensor)}


def _not_hidden(op: str, step: Step, inputs: Sequence[ShownTensor]) -> dict[int, Tensor]:
    """Return which numbers the other operand leaves visible: a factor of 0 hides them, and so does an additive mask."""
    values = [tensor.detach().cpu() for tensor in step.call.tensors]
    known = [not source.is_overwritten_after(step.number) for source in inputs]
    if any(value.is_complex() for value in values):
        return {}
    kept = {}
    for i, (mask, other) in enumerate(((values[1], values[0]), (values[0], values[1]))):
        if not known[1 - i]:
            continue
        if op.removeprefix("i") == "mul":
            kept[i] = mask != 0
        elif mask.dtype.is_floating_point:
            kept[i] = ~_hides(mask * ADDITIONS[op] if i == 0 else mask, other if known[i] else None)
    return kept


def _hides(mask: Tensor, other: Tensor | None) -> Tensor:
    """Return where a number hides the one that it is added to: as infinity does, or as a mask of numbers does.

    Such a mask holds 0 and large negative numbers. With others, a sum may still be rounded to the mask's own number,
    as it is for all but the largest of such numbers if the other one is not known any more.
    """
    below = mask <= -HUGE
    if not bool((mask == 0).any()) or not bool((below | (mask == 0)).all()):
        below = below & ((mask <= -(HUGE**2)) if other is None else (mask + other == mask))
    hides = below | mask.isinf()
    return hides if other is None else hides & (other.abs() < HUGE)
