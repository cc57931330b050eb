"""Convert sentences to HTML."""

from __future__ import annotations

from html import escape


def backticks_to_code(text: str) -> str:
    """Return a text as HTML, with the parts between backticks as code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:  # a backtick is unpaired: leave them all
        return escape(text)
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
