"""Find the tensors that can still be reached after a run, as in a cache, a module or a list outside the function."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import CellType, FunctionType, ModuleType
from typing import Any

from torch import Tensor

DEEPEST = 4  # a cache holds a list of layers, each layer its keys


def reachable_tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """Yield the tensors in values, in their containers, and in the attributes of their objects."""
    seen: set[int] = set()
    waiting = [(value, 0) for value in values]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, Tensor):
            yield value
        elif depth <= DEEPEST and id(value) not in seen:
            seen.add(id(value))
            waiting += [(part, depth + 1) for part in _parts(value)]


def reachable_from(function: Callable[..., Any]) -> list[Any]:
    """Return the objects that a function can reach besides its arguments: its owner, and the names in its code."""
    if isinstance(function, partial):
        return [*function.args, *function.keywords.values(), *reachable_from(function.func)]
    owner = getattr(function, "__self__", function)
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        return [owner]
    names = function.__code__.co_names
    from_globals = [function.__globals__[name] for name in names if name in function.__globals__]
    return [owner, *from_globals, *(_content(cell) for cell in function.__closure__ or ())]


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return value
    if isinstance(value, (type, ModuleType)):  # `torch` itself, which a function names too
        return ()
    slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
    return [*getattr(value, "__dict__", {}).values(), *slots]
