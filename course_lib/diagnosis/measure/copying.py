"""Copy modules so that nothing in the copy reaches the original: parameters, kept results, and functions' closures."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from inspect import signature
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.quantised import with_plain_linears
from course_lib.tracing import tensors_in

NO_RESULTS = ("_parameters", "_modules")  # parameters are leaves, and modules are visited themselves


def copy_of(module: nn.Module) -> nn.Module:
    """Return a deep copy of a module in which lambdas and inner functions read the copy, too.

    `deepcopy` keeps functions as they are, and refuses tensors with a gradient history.

    Raises:
        RuntimeError: the module can't be copied.
    """
    memo: dict[int, Any] = {**_kept_results(module), **_empty_dicts(module)}
    copied = copy.deepcopy(module, memo)
    for one in copied.modules():
        for name, value in list(vars(one).items()):
            rebound = _rebound(value, memo)
            if rebound is not value:
                vars(one)[name] = rebound
    while (found := next(plain_lists(copied), None)) is not None:
        _, owner, name = found
        setattr(owner, name, nn.ModuleList(getattr(owner, name)))
    return with_plain_linears(copied)


def plain_lists(module: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    """Yield the path, owner and attribute of each plain list of several layers whose weights are registered nowhere.

    `.to()`, `.double()`, `.eval()` and `state_dict()` of the module pass them by; a copy registers them.
    """
    known = {id(one) for one in module.parameters()}
    for path, owner in module.named_modules():
        for name, held in vars(owner).items():
            if type(held) in (list, tuple) and len(held) > 1 and all(isinstance(one, nn.Module) for one in held):
                parts = [part for one in held for part in one.modules()]
                own = {id(one) for part in parts for one in part.parameters(recurse=False)}
                if own and own.isdisjoint(known) and owner not in parts:
                    yield f"{path}.{name}" if path else name, owner, name


def in_dtype(dtype: torch.dtype, module: nn.Module) -> nn.Module:
    """Return a module with its real parameters and buffers in a dtype; `module.to(dtype)` makes complex ones real."""
    converted = {
        torch.float64: module.double,
        torch.float32: module.float,
        torch.float16: module.half,
        torch.bfloat16: module.bfloat16,
    }
    return converted[dtype]() if dtype in converted else module.to(dtype)


def replace_given_dtype(module: nn.Module, before: torch.dtype, now: torch.dtype) -> None:
    """Put a dtype in place of the one that the constructors of a copy were given, as an argument or in settings."""
    for one in module.modules():
        for name, value in list(vars(one).items()):
            if value is before and name in signature(type(one).__init__).parameters:
                setattr(one, name, now)
            for settings, key in settings_in(value):
                if settings[key] is before:
                    settings[key] = now


def settings_in(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each setting that a module keeps in a dict, or in a plain object, as dict and key."""
    settings = value if isinstance(value, dict) else getattr(value, "__dict__", None)
    if isinstance(settings, dict) and not callable(value) and not isinstance(value, ModuleType):
        yield from ((settings, key) for key in list(settings))


def _kept_results(module: nn.Module) -> dict[int, Tensor]:
    """Copy the results that modules keep, because `deepcopy` refuses tensors with a gradient history."""
    attributes = (held for one in module.modules() for name, held in vars(one).items() if name not in NO_RESULTS)
    kept = (tensor for held in attributes if not _is_empty_dict(held) for tensor in tensors_in(held))
    return {id(tensor): tensor.detach().clone() for tensor in kept if not tensor.is_leaf}


def _empty_dicts(module: nn.Module) -> dict[int, Any]:
    """Make the empty dicts of a copy's modules, a dozen each for hooks: `deepcopy` takes most of its time for them."""
    held = (value for one in module.modules() for value in vars(one).values())
    return {id(value): type(value)() for value in held if _is_empty_dict(value)}


def _is_empty_dict(value: Any) -> bool:
    return type(value) in (dict, OrderedDict) and not value


def _rebound(value: Any, memo: dict[int, Any]) -> Any:
    """Return a function, or a container of functions, that reads the copies of what it closes over."""
    if isinstance(value, FunctionType):
        return _rebound_function(value, memo)
    if type(value) in (list, tuple):
        new = [_rebound(one, memo) for one in value]
        changed = any(one is not old for one, old in zip(new, value, strict=True))
        return type(value)(new) if changed else value
    if isinstance(value, dict) and not isinstance(value, nn.Module):
        for key, one in list(value.items()):  # the dict is a copy already
            if isinstance(one, FunctionType):
                value[key] = _rebound_function(one, memo)
    return value


def _rebound_function(function: FunctionType, memo: dict[int, Any]) -> Callable[..., Any]:
    def copied(held: Any) -> Any:
        if isinstance(held, FunctionType) and held is not function:
            return _rebound_function(held, memo)
        if isinstance(held, MethodType):  # such as the `forward` that a function replaces
            return MethodType(held.__func__, new) if (new := copied(held.__self__)) is not held.__self__ else held
        return memo.get(id(held), held) if isinstance(held, (nn.Module, Tensor)) else held

    cells = tuple(_cell(cell, copied) for cell in function.__closure__ or ())
    defaults = tuple(map(copied, function.__defaults__ or ()))
    keywords = {name: copied(value) for name, value in (function.__kwdefaults__ or {}).items()}
    same = all(new is old for new, old in zip(cells, function.__closure__ or (), strict=True))
    same = same and all(new is old for new, old in zip(defaults, function.__defaults__ or (), strict=True))
    if same and all(value is (function.__kwdefaults__ or {})[name] for name, value in keywords.items()):
        return function
    made = FunctionType(function.__code__, function.__globals__, function.__name__, defaults or None, cells)
    made.__kwdefaults__ = keywords or None
    made.__dict__.update(function.__dict__)
    return made


def _cell(cell: CellType, copied: Callable[[Any], Any]) -> CellType:
    try:
        held = cell.cell_contents
    except ValueError:  # a variable that was never assigned
        return cell
    new = copied(held)
    return cell if new is held else CellType(new)
