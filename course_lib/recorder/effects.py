"""What a call did to its numbers: read them in another order, move them, change them where they lie, or compute."""

from __future__ import annotations

import inspect

from .call import Call, Layout

# Calls that give no tensor but look at the numbers of one, so that it counts as used; `x.data = y` is a `__set__`.
READS = {
    *("item", "tolist", "numpy", "equal", "allclose", "is_nonzero", "backward", "__repr__", "__format__", "__set__"),
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__contains__", "__array__"),
}
# Calls and properties that give a tensor but do nothing to it that a picture or a table could show.
NO_STEP = {"requires_grad_", "detach_", "property grad"}

TO_TYPE = {
    *("to", "type", "type_as", "float", "double", "half", "bfloat16", "byte", "short", "int", "long", "bool"),
    *("cpu", "cuda"),
}
# Calls that move numbers to new memory without changing one (another dtype rounds them at most). Some of them are
# views where that is enough, which the memory of their result tells.
COPIES = TO_TYPE | {
    *("reshape", "reshape_as", "contiguous", "clone", "flatten", "ravel", "unflatten", "expand", "broadcast_to"),
    *("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"),
    *("getitem", "index_select", "masked_select", "gather", "take", "take_along_dim", "embedding", "deepcopy"),
    *("repeat", "tile", "repeat_interleave", "roll", "flip", "fliplr", "flipud", "rot90", "unfold", "pad"),
    *("_to_copy", "_unsafe_view", "_reshape_copy", "index", "constant_pad_nd"),  # PyTorch's own, underneath
}
# Calls that change only the type, the device or the gradient of numbers, not their order.
NOT_LAYOUT = TO_TYPE | {"detach", "data", "clone", "deepcopy"}
# The in-place operators of Python: `x += y` calls `__iadd__`.
IN_PLACE_OPERATORS = {
    *("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"),
    *("iand", "ior", "ixor", "ilshift", "irshift"),
}


def effect_of(call: Call, part: int, inputs: list[tuple[int, Layout]]) -> str:
    """Say what a call did to get one of its results.

    Args:
        call: as it was noted.
        part: which of its results.
        inputs: identity and layout of each tensor the call got.

    Returns:
        "in-place": a tensor that it got has other numbers now; "view": the result shares memory with a tensor that it
        got; "copy": the same numbers in new memory; "compute": new numbers.
    """
    op, result, storage = call.op, call.results[part], call.layout(part).storage
    named_in_place = op.endswith("_") or op == "setitem" or op in IN_PLACE_OPERATORS
    asked_in_place = call.kwargs.get("inplace") is True or call.kwargs.get("out") is not None
    got_it = any(identity == id(result) for identity, _ in inputs)
    if named_in_place or asked_in_place or (got_it and _asked_by_place(call)):
        return "in-place"
    if any(storage == before.storage for _, before in inputs):
        return "view"
    return "copy" if op in COPIES else "compute"


def is_layout_step(op: str, effect: str, layout: Layout, inputs: list[Layout]) -> bool:
    """Say whether numbers got another order, shape or place without being changed: what the layout pictures draw."""
    if op in NOT_LAYOUT or effect not in ("view", "copy"):
        return False
    return effect == "copy" or all(_arrangement(layout) != _arrangement(before) for before in inputs)


def _arrangement(layout: Layout) -> tuple:
    """Shape, strides and offset; the stride of an axis with one index says nothing."""
    strides = tuple(step for size, step in zip(layout.shape, layout.stride, strict=False) if size > 1)
    return layout.shape, strides, layout.offset


def _asked_by_place(call: Call) -> bool:
    """`F.relu(x, True)` is told to work in place without the word. Others give back what they got: nothing to do."""
    try:
        return inspect.signature(call.func).bind(*call.args, **call.kwargs).arguments.get("inplace") is True
    except (TypeError, ValueError):  # PyTorch's functions in C++ have no signature
        return False
