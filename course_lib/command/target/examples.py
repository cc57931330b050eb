"""Guess example arguments for a class from the names of its parameters."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, get_type_hints

CONFIG = re.compile(r"conf|cfg|args|params|settings|options|hparams", re.I)
# The first pattern that matches a name decides. The sizes fit each other: 6 heads of width 4 are 24 wide, and share 2.
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
    """Write arguments for a class or function, such as "d_in=24, num_heads=6" or "GPTConfig(n_head=6, n_embd=24)".

    Its configuration may be defined in the module.
    """
    found: list[str] = []
    for parameter in _parameters(thing):
        if parameter.default is not parameter.empty:
            continue
        read = _read(thing, parameter.name)
        is_config = bool(read or CONFIG.search(parameter.name) or CONFIG.search(_annotation(parameter)))
        value = _config(parameter, thing, read, module) if is_config else _written(parameter.name)
        found.append(value if not found and is_config else f"{parameter.name}={value}")
    return ", ".join(found)


def _parameters(thing: Callable) -> list[inspect.Parameter]:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each for each in inspect.signature(thing).parameters.values() if each.kind not in variable]


def _annotation(parameter: inspect.Parameter) -> str:
    given = parameter.annotation
    return "" if given is parameter.empty else given if isinstance(given, str) else getattr(given, "__name__", "")


def _config(parameter: inspect.Parameter, thing: Callable, read: list[str], module: ModuleType) -> str:
    """Return a configuration with the values that the class reads, of the configuration's class if that is known."""
    classes = {name: value for name, value in vars(module).items() if inspect.isclass(value) and value is not thing}
    if cls := classes.get(_annotation(parameter)):
        return _of_class(cls, read)
    for name, cls in classes.items():
        if CONFIG.search(name) and (not read or set(inspect.signature(cls).parameters) & set(read)):
            return _of_class(cls, read)
    return f"SimpleNamespace({', '.join(f'{name}={_written(name)}' for name in read)})"


def _of_class(cls: Any, read: list[str]) -> str:
    """Return a call of a configuration's class, with required arguments and small sizes for what is read."""
    try:
        kinds = get_type_hints(cls)
    except Exception:  # an annotation may name what is imported only for type checkers
        kinds = {}
    words = []
    for parameter in _parameters(cls):
        name, needed = parameter.name, parameter.default is parameter.empty
        if dataclasses.is_dataclass(kinds.get(name)):
            words += [f"{name}={_of_class(kinds[name], read)}"] if needed else []
        elif needed or (name in read and _written(name) not in ("...", "0", "0.0", "False")):
            words.append(f"{name}={_written(name)}")
    return f"{cls.__name__}({', '.join(words)})"


def _read(thing: Callable, name: str) -> list[str]:
    """Return the attributes of a parameter that the source reads, in order."""
    try:
        source = inspect.getsource(thing)
    except (OSError, TypeError):
        return []
    return list(dict.fromkeys(re.findall(rf"\b{name}\.(\w+)", source)))


def _written(name: str) -> str:
    """Return a value for a parameter of this name as source code, or "..." if no pattern matches."""
    return next((repr(value) for pattern, value in SIZES if re.search(pattern, name, re.I)), "...")
