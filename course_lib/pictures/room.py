"""The width that a drawing may fill: a notebook's or, within `on_a_phone`, a phone's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .style import STYLE

_ROOM: ContextVar[int] = ContextVar("room", default=STYLE.width)


def room() -> int:
    """Return the width in pixels that a drawing may fill, without its margins."""
    return _ROOM.get()


def is_narrow() -> bool:
    """Say whether the drawing is for a phone, so that panels lie below each other and long lines are folded."""
    return room() < STYLE.width


@contextmanager
def on_a_phone() -> Iterator[None]:
    """Draw for a phone held upright within this block."""
    before = _ROOM.set(STYLE.narrow)
    try:
        yield
    finally:
        _ROOM.reset(before)
