"""Classify what a call did to the elements: a view, a copy, a change in place, or the computation of new elements."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor

from course_lib.tracing import Layout

from .call import Call

# Calls that return no tensor but read the elements of one, so that it counts as used; `x.data = y` is a `__set__`.
READS = {
    *("item", "tolist", "numpy", "equal", "allclose", "is_nonzero", "backward", "__repr__", "__format__", "__set__"),
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__contains__", "__array__"),
}
# Calls and properties that return a tensor without a change that a picture or a table could show.
NO_STEP = {"requires_grad_", "detach_", "property grad"}

TO_TYPE = {
    *("to", "type", "type_as", "float", "double", "half", "bfloat16", "byte", "short", "int", "long", "bool"),
    *("cpu", "cuda"),
}
# Calls that copy elements to new memory without changing one (another dtype rounds them at most). Some of them are
# views if that is enough, which the storage of their result shows.
COPIES = TO_TYPE | {
    *("reshape", "reshape_as", "contiguous", "clone", "flatten", "ravel", "unflatten", "expand", "broadcast_to"),
    *("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"),
    *("getitem", "index_select", "masked_select", "gather", "take", "take_along_dim", "embedding", "deepcopy"),
    *("repeat", "tile", "repeat_interleave", "roll", "flip", "fliplr", "flipud", "rot90", "unfold", "pad"),
    *("_to_copy", "_unsafe_view", "_reshape_copy", "index", "constant_pad_nd"),  # PyTorch's own operations
}
# Calls that change only the type, the device or the gradient of elements, not their order.
NOT_LAYOUT = TO_TYPE | {"detach", "data", "clone", "deepcopy"}
# The in-place operators of Python: `x += y` calls `__iadd__`.
IN_PLACE_OPERATORS = {
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
    *("iand", "ior", "ixor", "ilshift", "irshift"),
}


WRITING = {"__setitem__", *(f"__{name}__" for name in IN_PLACE_OPERATORS)}


def written_by(func: Callable[..., Any], args: tuple, kwargs: dict[str, Any] | None) -> tuple:
    """Return what a call is about to write into: nothing, its first argument, or its `out`."""
    name = getattr(func, "__name__", "")
    if name[-1:] == "_" and (name in WRITING or name[-2:] != "__"):
        return args[:1]
    if not kwargs:
        return ()
    out = kwargs.get("out")
    return (out,) if out is not None else args[:1] if kwargs.get("inplace") is True else ()


def effect_of(call: Call, result: Tensor, layout: Layout, inputs: list[tuple[int, Layout]]) -> str:
    """Return the effect of a call on one of its results, given id and layout of each tensor argument.

    It is "in-place" if the call changed an argument, "view" if the result shares memory with an argument, "copy" if it
    holds the same elements in new memory, "compute" if its elements are new.
    """
    op = call.op
    named_in_place = op.endswith("_") or op == "setitem" or op in IN_PLACE_OPERATORS
    requested_in_place = call.kwargs.get("inplace") is True or call.kwargs.get("out") is not None
    is_argument = any(identity == id(result) for identity, _ in inputs)
    if named_in_place or requested_in_place or (is_argument and _requested_by_position(call)):
        return "in-place"
    if any(layout.storage == before.storage for _, before in inputs):
        return "view"
    return "copy" if op in COPIES else "compute"


def is_layout_step(op: str, effect: str, layout: Layout, inputs: list[Layout]) -> bool:
    """Return whether unchanged elements got a different shape, order or memory, as layout pictures draw it."""
    if op in NOT_LAYOUT or effect not in ("view", "copy"):
        return False
    return effect == "copy" or all(_arrangement(layout) != _arrangement(before) for before in inputs)


def _arrangement(layout: Layout) -> tuple:
    """Return shape, strides and offset, without the strides of axes of size 1, which have no effect."""
    strides = tuple(step for size, step in zip(layout.shape, layout.stride, strict=False) if size > 1)
    return layout.shape, strides, layout.offset


def _requested_by_position(call: Call) -> bool:
    """Return whether `inplace` was a positional argument, as in `F.relu(x, True)`."""
    try:
        return inspect.signature(call.func).bind(*call.args, **call.kwargs).arguments.get("inplace") is True
    except (TypeError, ValueError):  # functions that PyTorch defines in C++ have no signature
        return False
