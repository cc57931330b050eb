"""Entries of the book's index: words that its search finds a page by, first of all."""

from collections.abc import Iterable


def indexed(texts: Iterable[str]) -> str:
    """Lead whoever searches for one of these texts to this place; nothing of it is seen on the page."""
    return "".join(f"```{{index}} single: {text.rstrip('.').replace('`', '')}\n```\n\n" for text in texts)
