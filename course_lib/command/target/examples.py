"""Arguments that a class may be built with, guessed from the names of its parameters: an example to go on from."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, get_type_hints

CONFIG = re.compile(r"conf|cfg|args|params|settings|options|hparams", re.I)
# The first pattern that a name fits decides. The sizes fit each other: 6 heads of width 4 are 24 wide, and share 2.
SIZES = (
    (r"kv|key_value|group", 2),
    (r"head_?(dim|size|width)|dim_?(per_)?head|d_?[kv]$|d_head", 4),
    (r"head|^h$", 6),
    (r"drop|^p$|prob", 0.0),
    (r"block|context|ctx|seq|len|max|pos|window|tokens", 64),
    (r"layer_?i", 0),
    (r"layer|depth", 1),
    (r"vocab", 96),
    (r"theta|base", 10000.0),
    (r"device", "cpu"),
    (r"scale|temperature", 1.0),
    (r"bias|causal|flash|use_|is_", False),
    (r"embd|emb|dim|width|hidden|model|d_|^d|feat|channel|in$|out$|size", 24),
)


def example_of(thing: Callable, module: ModuleType) -> str:
    """Write arguments for a class or function, such as "GPTConfig(n_head=6, n_embd=24)" or "d_in=24, num_heads=6".

    Args:
        thing: to be called.
        module: where its configuration may be defined.
    """
    found = []
    for parameter in _required(thing):
        is_config = _is_config(parameter, thing)
        words = _config(parameter, thing, module) if is_config else _written(parameter.name)
        found.append(words if not found and is_config else f"{parameter.name}={words}")
    return ", ".join(found)


def _required(thing: Callable) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            yield parameter


def _is_config(parameter: inspect.Parameter, thing: Callable) -> bool:
    names = parameter.name, _annotation(parameter)
    return any(CONFIG.search(name) for name in names) or bool(_read(thing, parameter.name))


def _annotation(parameter: inspect.Parameter) -> str:
    given = parameter.annotation
    return "" if given is parameter.empty else given if isinstance(given, str) else getattr(given, "__name__", "")


def _config(parameter: inspect.Parameter, thing: Callable, module: ModuleType) -> str:
    """A configuration with the values that the class reads: of its own class where that is known."""
    read = _read(thing, parameter.name)
    classes = {name: value for name, value in vars(module).items() if inspect.isclass(value) and value is not thing}
    cls = classes.get(_annotation(parameter)) or next(
        (value for name, value in classes.items() if CONFIG.search(name) and _takes(value, read)), None
    )
    if cls is None:
        return f"SimpleNamespace({', '.join(f'{name}={_written(name)}' for name in read)})"
    return _of_class(cls, read)


def _of_class(cls: Any, read: list[str]) -> str:
    """A call of a configuration's class: what it needs, and small sizes for what is read of it."""
    words, kinds = [], _kinds(cls)
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        needed = parameter.default is parameter.empty
        kind = kinds.get(parameter.name)
        if dataclasses.is_dataclass(kind):
            words += [f"{parameter.name}={_of_class(kind, read)}"] if needed else []
        elif needed or (parameter.name in read and _value(parameter.name) not in (None, 0.0, False)):
            words.append(f"{parameter.name}={_written(parameter.name)}")
    return f"{cls.__name__}({', '.join(words)})"


def _kinds(cls: Any) -> dict[str, Any]:
    try:
        return get_type_hints(cls)
    except Exception:  # an annotation may name what only a type checker sees
        return {}


def _takes(cls: Any, read: list[str]) -> bool:
    return not read or bool(set(inspect.signature(cls).parameters) & set(read))


def _read(thing: Callable, name: str) -> list[str]:
    """The attributes of a parameter that are read in the source, in their order."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return []
    return list(dict.fromkeys(re.findall(rf"\b{name}\.(\w+)", source)))


def _value(name: str) -> float | None:
    return next((value for pattern, value in SIZES if re.search(pattern, name, re.I)), None)


def _written(name: str) -> str:
    value = _value(name)
    return "..." if value is None else repr(value)
