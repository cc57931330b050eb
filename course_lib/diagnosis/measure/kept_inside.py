"""What modules keep in themselves, and the methods that make it before use or set it back."""

import dis
from collections.abc import Callable
from contextlib import suppress
from types import CodeType, MethodType
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.calling import code_of, parameters_of
from course_lib.tracing import tensors_in

State = dict[tuple[str, str], Any]  # (path of a module, attribute) -> what can be compared of it


def state_of(root: nn.Module) -> State:
    """Return what the author's modules keep besides weights: the shapes and sums of tensors, or plain values."""
    state: State = {}
    for path, one in root.named_modules():
        for name, value in {**vars(one), **one._buffers, **one._modules}.items():
            if _is_own(type(one)) and name not in vars(nn.Module()) and not isinstance(value, nn.Module):
                held = vars(value) if hasattr(value, "__dict__") and not isinstance(value, (Tensor, type)) else value
                tensors = [(part.shape, complex(part.to(torch.complex128).sum())) for part in tensors_in(held)]
                state[path, name] = tensors or (value if type(value) in (int, bool, type(None)) else type(value))
    return state


def differing(one: State, other: State) -> set[tuple[str, str]]:
    """Return where two states differ."""
    return {key for key in one.keys() | other.keys() if one.get(key, other) != other.get(key, one)}


def methods_that(works: Callable[[MethodType], bool], root: nn.Module, names: set[str]) -> list[MethodType]:
    """Return the methods that write attributes of these names, or call one that does, and work.

    Those within a module that has such a method are left out.
    """
    own = [(f"{path}.", call) for path, module in root.named_modules() for call in _methods(module)]
    writing: set[str] = set()
    while new := {one.__name__ for _, one in own if _writes(one, names, writing)} - writing:
        writing |= new
    found: dict[str, list[MethodType]] = {}
    for path, call in own:
        outer = tuple(one.lstrip(".") for one in found if one != path)
        if call.__name__ in writing and not path.startswith(outer):
            with suppress(Exception):  # whatever the author's code raises
                found |= {path: [*found.get(path, []), call]} if works(call) else {}
    return [one for calls in found.values() for one in calls]


def set_up(root: nn.Module, x: Tensor) -> list[MethodType]:
    """Call the methods that make, for the sizes of x, what a copy keeps keys and values in, and return them."""
    sizes = dict.fromkeys(("len", "seq", "size", "tokens", "max"), x.shape[1])  # by words in the names of arguments
    known = {"batch": len(x), "dtype": torch.get_default_dtype(), "device": x.device, **sizes}

    def fills(call: MethodType) -> bool:
        before = state_of(root)
        needed = [one.name for one in parameters_of(call) if one.default is one.empty]
        call(**{name: next(value for word, value in known.items() if word in name) for name in needed})
        after = state_of(root)
        return any(isinstance(after.get(key), list) for key in differing(before, after))

    return methods_that(fills, root, {name for (_, name), held in state_of(root).items() if held is None})


def _is_own(kind: type) -> bool:
    return not kind.__module__.startswith("torch.")


def _methods(module: nn.Module) -> list[MethodType]:
    names = dict.fromkeys(name for base in type(module).__mro__ if _is_own(base) for name in vars(base))
    public = [getattr(module, name) for name in names if name[0] != "_" and code_of(getattr(type(module), name))]
    return [one for one in public if isinstance(one, MethodType) and one.__name__ != "forward"]


def _writes(call: MethodType, names: set[str], callees: set[str]) -> bool:
    """Return whether a method assigns to such an attribute or changes it in place, or calls one of the callees."""
    code = code_of(call)
    codes = [code, *(one for one in code.co_consts if isinstance(one, CodeType))] if code else []
    used = {name for one in codes for name in one.co_names}
    words = used | {text for one in codes for text in one.co_consts if isinstance(text, str)}
    stores = {step.opname for one in codes for step in dis.get_instructions(one)} & {"STORE_ATTR", "STORE_SUBSCR"}
    in_place = used & {"clear", "register_buffer", "setattr"} or any(one.endswith("_") for one in used)
    return bool(used & callees or ((stores or in_place) and words & names))
