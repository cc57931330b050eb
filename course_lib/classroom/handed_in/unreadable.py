"""What is said of a file that can't be read, and how names that students chose are written in a sentence."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidi, zero width), half a pair, line and paragraph ends


class Unreadable(Exception):
    """A file that was handed in can't be read; `reason` is a sentence for the student that begins with "It"."""

    @property
    def reason(self) -> str:
        """Why, and what to do."""
        return str(self)


def shown(text: str, limit: int = 120) -> str:
    r"""Text of a student as it may stand in a page or a table: what can't be seen is written as \u and four digits.

    Args:
        text: a name or a line of code. Backslashes are written out too, so that two names never look the same.
        limit: characters that are kept; what is longer ends in "…".
    """
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(
        (f"\\u{ord(one):04x}" if ord(one) < 0x10000 else f"\\U{ord(one):08x}")
        if one == "\\" or unicodedata.category(one) in _HIDDEN
        else one
        for one in cut
    )
