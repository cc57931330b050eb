"""Write text that a student chose so that each of its characters can be seen."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format (bidi, zero width), lone surrogate, line and paragraph ends


def escape_hidden(text: str, limit: int = 120) -> str:
    r"""Escape the invisible characters of a text so that it can stand in a page, a table or a sentence.

    They become \u and four hexadecimal digits, or \U and eight. Backslashes are escaped too, so that two different
    names never look the same. A text of more characters than the limit is cut and ends in "…".
    """
    cut = text if len(text) <= limit else text[:limit] + "…"
    return "".join(
        (f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}")
        if character == "\\" or unicodedata.category(character) in _HIDDEN
        else character
        for character in cut
    )
