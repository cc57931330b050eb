"""Guess example arguments for a class from the names of its parameters."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple, get_type_hints

from .call_guesses import named_parameters

CONFIG = re.compile(r"conf|cfg|args|params|settings|options|hparams", re.I)


class Code(NamedTuple):
    """A value that is written as code."""

    text: str

    def __repr__(self) -> str:
        return self.text


# The first pattern that matches a name decides. The sizes fit each other: 6 heads of width 4 are 24 wide, and share 2.
SIZES = (
    (r"^[kv]_proj", Code("nn.Linear(24, 8)")),
    (r"_proj$", Code("nn.Linear(24, 24)")),
    (r"(layer|block)_?i(d|dx|ndex)?$", 0),
    (r"^(log|return|use|is|has|with|need)_|bias|causal|flash", False),
    (r"kv|key_value|group", 2),
    (r"head_?(dim|size|width)|dim_?(per_)?head|d_?[kv]$|d_head", 4),
    (r"head|^h$", 6),
    (r"drop|^p$|prob", 0.0),
    (r"block|context|ctx|seq|len|max|pos|window|tokens", 64),
    (r"layer|depth", 1),
    (r"vocab", 96),
    (r"theta|base", 10000.0),
    (r"device", "cpu"),
    (r"scale|temperature", 1.0),
    (r"embd|emb|dim|width|hidden|model|d_|^d|feat|channel|in$|out$|size", 24),
)
WIDTH = "24"


def example_of(function: Callable, module: ModuleType, *, small: bool = False) -> str:
    """Write arguments for a class or function, such as "d_in=24, num_heads=6" or "GPTConfig(n_head=6, n_embd=24)".

    Its configuration may be defined in the module. With `small`, defaults that are larger sizes are replaced, too.
    """
    arguments: list[str] = []
    for parameter in named_parameters(function):
        if parameter.default is not parameter.empty:
            if small and _is_larger(parameter.default, _written(parameter.name)):
                arguments.append(f"{parameter.name}={_written(parameter.name)}")
            continue
        read = _read(function, parameter.name)
        is_config = bool(read or CONFIG.search(parameter.name) or CONFIG.search(_annotation(parameter)))
        value = _config(parameter, function, read, module) if is_config else _written(parameter.name)
        arguments.append(value if not arguments and is_config else f"{parameter.name}={value}")
    return ", ".join(arguments)


def resized(example: str, *, num_heads: int = 6, num_kv_heads: int = 2, head_dim: int = 4) -> str:
    """Return an example with other sizes that fit each other."""
    sizes = {24: num_heads * head_dim, 8: num_kv_heads * head_dim, 6: num_heads, 4: head_dim, 2: num_kv_heads}
    return re.sub(r"\b(24|8|6|4|2)\b", lambda size: str(sizes[int(size[0])]), example)


def widths_in(values: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the numbers among some arguments or attributes whose names are those of a width, such as `d_model`."""
    return tuple(value for name, value in values.items() if _is_number(value) and value > 0 and _written(name) == WIDTH)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_larger(default: Any, small: str) -> bool:
    return _is_number(default) and small.isdigit() and default > int(small) > 0


def _annotation(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _config(parameter: inspect.Parameter, function: Callable, read: list[str], module: ModuleType) -> str:
    """Write a configuration with the values that the class reads, of the configuration's own class if that is known."""
    classes = {name: value for name, value in vars(module).items() if inspect.isclass(value) and value is not function}
    if cls := classes.get(_annotation(parameter)):
        return _of_class(cls, read)
    for name, cls in classes.items():
        if CONFIG.search(name) and (not read or set(inspect.signature(cls).parameters) & set(read)):
            return _of_class(cls, read)
    return f"SimpleNamespace({', '.join(f'{name}={_written(name)}' for name in read)})"


def _of_class(cls: Any, read: list[str]) -> str:
    """Write a call of a configuration's class: its required arguments, and small sizes for what is read."""
    try:
        kinds = get_type_hints(cls)
    except Exception:  # an annotation may name what is imported only for type checkers
        kinds = {}
    words = []
    for parameter in named_parameters(cls):
        name, needed = parameter.name, parameter.default is parameter.empty
        if dataclasses.is_dataclass(kinds.get(name)):
            words += [f"{name}={_of_class(kinds[name], read)}"] if needed else []
        elif needed or (name in read and _is_number(parameter.default) and _written(name).strip("0123456789") == ""):
            words.append(f"{name}={_written(name)}")
    return f"{cls.__name__}({', '.join(words)})"


def _read(function: Callable, name: str) -> list[str]:
    """Return the attributes of a parameter that the source reads, in order."""
    source = ""
    for candidate in (function, getattr(function, "__init__", None)):  # a class of a cell has no source
        with suppress(OSError, TypeError):
            source = source or inspect.getsource(candidate)  # type: ignore[arg-type]
    return list(dict.fromkeys(re.findall(rf"(?<![\w.]){name}\.(\w+)", source)))


def _written(name: str) -> str:
    """Write a value for a parameter of this name, or "..." if no pattern matches."""
    return next((repr(value) for pattern, value in SIZES if re.search(pattern, name, re.I)), "...")
