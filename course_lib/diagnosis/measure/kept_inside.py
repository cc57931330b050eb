"""What modules keep in themselves, and the methods that make it before use or set it back."""

import dis
from collections.abc import Callable
from contextlib import suppress
from types import CodeType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from course_lib.calling import code_of, parameters_of
from course_lib.tracing import tensors_in

IN_PLACE = ("clear", "register_buffer", "setattr")
State = dict[tuple[str, str], Any]  # (path of a module, attribute) -> what can be compared of it


class Method(NamedTuple):
    """A method of the module at a path within another one."""

    path: str
    name: str
    code: CodeType


def state_of(root: nn.Module) -> State:
    """Return what the author's modules keep besides weights: the shapes and sums of tensors, or plain values."""
    state: State = {}
    for path, one in root.named_modules():
        for name, value in {**vars(one), **one._buffers, **one._modules}.items():
            if _is_own(type(one)) and name not in vars(nn.Module()) and not isinstance(value, nn.Module):
                is_object = hasattr(value, "__dict__") and not isinstance(value, Tensor) and not callable(value)
                tensors = [
                    (part.shape, float(part.double().nan_to_num().sum()))
                    for part in tensors_in(vars(value) if is_object else value)
                ]
                state[path, name] = tensors or (value if type(value) in (int, bool, type(None)) else type(value))
    return state


def differing(one: State, other: State) -> set[tuple[str, str]]:
    """Return where two states differ."""
    return {key for key in one.keys() | other.keys() if one.get(key, other) != other.get(key, one)}


def methods_that(works: Callable[[Callable[..., Any]], bool], root: nn.Module, names: set[str]) -> list[Method]:
    """Return the methods that write attributes of these names, or call one that does, and work.

    Those within a module that has such a method are left out.
    """
    own = [Method(path, *one) for path, module in root.named_modules() for one in _methods(type(module))]
    writing: set[str] = set()
    while new := {one.name for one in own if one.name not in writing and _writes(one.code, names, writing)}:
        writing |= new
    found: list[Method] = []
    for one in own:
        outer = (f"{made.path}.".lstrip(".") for made in found if made.path != one.path)
        if one.name in writing and not f"{one.path}.".startswith(tuple(outer)):
            with suppress(Exception):  # whatever the author's code raises
                found += [one] if works(getattr(root.get_submodule(one.path), one.name)) else []
    return found


def set_up(root: nn.Module, x: Tensor) -> list[Method]:
    """Call the methods that make, for the sizes of x, what a copy keeps keys and values in, and return them."""
    sizes = dict.fromkeys(("len", "seq", "size", "tokens", "max"), x.shape[1])  # by words in the names of arguments
    known = {"batch": len(x), "dtype": torch.get_default_dtype(), "device": x.device, **sizes}

    def fills(call: Callable[..., Any]) -> bool:
        before = state_of(root)
        needed = [one.name for one in parameters_of(call) if one.default is one.empty]
        call(**{name: next(value for word, value in known.items() if word in name) for name in needed})
        after = state_of(root)
        return any(isinstance(after.get(key), list) for key in differing(before, after))

    return methods_that(fills, root, {name for (_, name), held in state_of(root).items() if held is None})


def _is_own(kind: type) -> bool:
    return not kind.__module__.startswith("torch.")


def _methods(kind: type) -> list[tuple[str, CodeType]]:
    names = dict.fromkeys(name for base in kind.__mro__ if _is_own(base) for name in vars(base) if name[0] != "_")
    return [(name, code) for name in names if name != "forward" and (code := code_of(getattr(kind, name)))]


def _writes(code: CodeType, names: set[str], callees: set[str]) -> bool:
    """Return whether code assigns to such an attribute or changes it in place, or calls one of the callees."""
    codes = [code, *(one for one in code.co_consts if isinstance(one, CodeType))]
    used = {name for one in codes for name in one.co_names}
    words = used | {text for one in codes for text in one.co_consts if isinstance(text, str)}
    steps = {step.opname for one in codes for step in dis.get_instructions(one)}
    stores = steps & {"STORE_ATTR", "STORE_SUBSCR"} or any(one.endswith("_") or one in IN_PLACE for one in used)
    return bool(used & callees or (stores and words & names))
