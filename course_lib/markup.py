"""Sentences as HTML."""

from html import escape


def code_words(words: str) -> str:
    """Return words as HTML, with what stands between backticks as code."""
    parts = escape(words).split("`")
    if len(parts) % 2 == 0:  # a backtick without its partner: leave them all
        return escape(words)
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
