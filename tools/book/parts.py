"""Parts of pages that the course computes, such as tables of measurements, between comments that readers don't see.

A part with two comments, `<!-- name -->` and `<!-- /name -->`, is stored between them, so that the page reads well in
the repository, too; `course figures` writes it anew. A single comment stands for a part that only the book shows.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a page with its parts.

    Raises:
        ValueError: The page has no place for one of them.
    """
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        marker = re.compile(rf"{re.escape(begin)}(?:(\n*)(?:(?!<!--).)*{re.escape(end)})?", re.DOTALL)
        if not marker.search(text):
            raise ValueError(f"The page has no {begin}: put it where the part {name!r} shall stand.")
        text = marker.sub(_between(begin, part.strip(), end), text)
    return text


def _between(begin: str, part: str, end: str) -> Callable[[re.Match[str]], str]:
    return lambda match: part if match[1] is None else f"{begin}{match[1]}{part}{match[1]}{end}"


def fill(page: Path, parts: Mapping[str, str]) -> None:
    """Write the parts into a page."""
    page.write_text(filled(page.read_text(encoding="utf-8"), parts), encoding="utf-8")
