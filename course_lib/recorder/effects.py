"""What a call did to its numbers: read them in another order, move them, change them where they lie, or compute."""

from __future__ import annotations

from .call import Call, Layout

# Calls that give no tensor but look at the numbers of one, so that it counts as used.
READS = {
    *("item", "tolist", "numpy", "equal", "allclose", "is_nonzero"),
    *("__bool__", "__int__", "__float__", "__complex__", "__index__", "__contains__", "__array__"),
}
# Calls that give a tensor but do nothing to it that a picture or a table could show.
NO_STEP = {"requires_grad_", "retain_grad", "grad"}

TO_TYPE = {"to", "float", "double", "half", "bfloat16", "int", "long", "bool", "type_as", "cpu", "cuda"}
# Calls that move numbers to new memory without changing one (another dtype rounds them at most). Some of them are
# views where that is enough, which the memory of their result tells.
COPIES = TO_TYPE | {
    *("reshape", "reshape_as", "contiguous", "clone", "flatten", "ravel", "unflatten", "expand", "broadcast_to"),
    *("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"),
    *("getitem", "index_select", "gather", "take", "take_along_dim"),
    *("repeat", "tile", "repeat_interleave", "roll", "flip", "fliplr", "flipud", "rot90", "unfold", "fold", "pad"),
    *("_to_copy", "_unsafe_view", "_reshape_copy", "index", "constant_pad_nd"),  # PyTorch's own, underneath
}
# Calls that give back the very tensor they got when there is nothing to do; others that do so changed it.
RETURNS_ITSELF = TO_TYPE | {
    *("contiguous", "dropout", "reshape", "reshape_as", "view", "view_as", "expand", "expand_as", "broadcast_to"),
    *("flatten", "positive", "pos", "resolve_conj", "resolve_neg", "as_subclass", "squeeze"),
}
# Calls that change only the type, the device or the gradient of numbers, not their order.
NOT_LAYOUT = TO_TYPE | {"detach", "data", "clone", "dropout", "alias"}
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
    if named_in_place or asked_in_place or (got_it and (op not in RETURNS_ITSELF or _flag_inplace(call))):
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


def _flag_inplace(call: Call) -> bool:
    """`F.dropout(x, p, training, inplace)` takes the flag by place as well."""
    return call.op == "dropout" and len(call.args) > 3 and call.args[3] is True
