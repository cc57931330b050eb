"""Distinguish a stub from an answer."""

import dis
import inspect
from types import CodeType
from typing import Any

from torch import nn


def is_empty(answer: Any) -> bool:
    """Return whether an answer is None, an ellipsis, or a function or class whose body is `...` or a docstring."""
    if answer is None or answer is Ellipsis:
        return True
    if inspect.isclass(answer):
        untouched = (getattr(answer, name, None) is getattr(nn.Module, name) for name in ("__init__", "forward"))
        return issubclass(answer, nn.Module) and all(untouched)
    code = getattr(answer, "__code__", None)
    return isinstance(code, CodeType) and _instructions(code) == _instructions(_stub.__code__)


def _stub() -> None: ...


def _instructions(code: CodeType) -> list[tuple[str, Any]]:
    found = dis.get_instructions(code)
    return [(one.opname, one.argval) for one in found if one.opname not in ("RESUME", "NOP")]
