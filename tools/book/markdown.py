"""Tables, lists of pages, index entries and figures in the book's Markdown."""

import json
from collections.abc import Iterable, Sequence

from course_lib.pictures import Picture


def table(*rows: Sequence[object]) -> str:
    """Return rows as a table; the first is the head."""
    head, *others = rows
    return "".join(f"| {' | '.join(map(str, row))} |\n" for row in [head, ["---"] * len(head), *others])


def toctree(names: Iterable[str]) -> str:
    """Return a table of contents that orders pages and is not shown."""
    return "\n".join(["```{toctree}", ":hidden:", "", *names, "```", ""])


def indexed(texts: Iterable[str]) -> str:
    """Return invisible entries of the book's index, so that a search for any of these texts leads to this page."""
    return "".join(f"```{{index}} single: {text.rstrip('.').replace('`', '')}\n```\n\n" for text in texts)


def figure(picture: Picture, file: str) -> str:
    """Show a picture that is stored beside the page, with its alt text."""
    words = json.dumps(" ".join(picture.description.split()), ensure_ascii=False)
    return f"```{{figure}} {file}\n:alt: {words}\n\n{picture.caption}\n```\n\n"
