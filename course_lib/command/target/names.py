"""The names that a module holds, and those that a text reads."""

import ast
from types import ModuleType

from .dependencies import loaded
from .stand_ins import StandIn

MOST = 12  # names in one sentence


def callables(module: ModuleType) -> str:
    """Return the names in a module that could be examined, those defined in it first."""
    values = vars(module).items()
    definitions = {name: value for name, value in values if callable(value) and not isinstance(value, StandIn)}
    names = [name for name in definitions if not name.startswith("_")]
    names.sort(key=lambda name: getattr(definitions[name], "__module__", None) != module.__name__)
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more or "nothing that can be called"


def names_in(*texts: str | None) -> set[str]:
    """Return the names that the texts of options read; a text that is not Python has none."""
    names: set[str] = set()
    for text in texts:
        try:
            names |= loaded(ast.parse(f"None({text or ''})", mode="eval"))  # a call, whose own name is none of the text
        except SyntaxError:
            continue
    return names
