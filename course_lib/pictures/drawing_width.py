"""The width that a drawing may fill: a notebook's or, within `on_a_phone`, a phone's."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .style import STYLE

_WIDTH: ContextVar[int] = ContextVar("drawing_width", default=STYLE.width)


def drawing_width() -> int:
    """Return the width in pixels that a drawing may fill, without its margins."""
    return _WIDTH.get()


def is_narrow() -> bool:
    """Say whether the drawing is for a phone, so that panels lie below each other and long lines are folded."""
    return drawing_width() < STYLE.width


@contextmanager
def on_a_phone() -> Iterator[None]:
    """Draw for a phone held upright within this block."""
    before = _WIDTH.set(STYLE.narrow)
    try:
        yield
    finally:
        _WIDTH.reset(before)
