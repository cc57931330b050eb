"""Is there an answer at all? A stub is told from code that was written."""

from __future__ import annotations

import dis
from typing import Any


def is_empty(answer: Any) -> bool:
    """Whether nothing was written: None, an ellipsis, or a function whose body is `...`, `pass` or a docstring."""
    if answer is None or answer is Ellipsis:
        return True
    code = getattr(answer, "__code__", None)
    return code is not None and _steps(code) == _steps(_nothing.__code__)


def _nothing() -> None: ...


def _steps(code: Any) -> list[tuple[str, Any]]:
    return [(step.opname, step.argval) for step in dis.get_instructions(code) if step.opname not in ("RESUME", "NOP")]
