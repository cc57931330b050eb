"""A picture that also says in words what it shows."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path


class Picture:
    """A drawing and the same thing in words, both made from the same data.

    In a notebook it shows as an image with alternative text and a caption, in a form that survives a notebook that is
    not trusted. In a terminal it prints its words.

    Args:
        svg: the drawing.
        words: what the drawing shows, for who can't see it.
        caption: one sentence below the drawing.

    Attributes:
        svg, words, caption: as given.
    """

    def __init__(self, *, svg: str, words: str, caption: str) -> None:
        self.svg = svg
        self.words = words
        self.caption = caption

    def __repr__(self) -> str:
        return f"{self.words}\n{self.caption}"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.svg.encode()).decode()
        return (
            f'<figure><img alt="{escape(self.words)}" src="data:image/svg+xml;base64,{data}">'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )

    def save(self, path: str | Path) -> Path:
        """Write the drawing to a file.

        Args:
            path: where to; its ending must be .svg.

        Returns:
            The path.

        Raises:
            ValueError: another ending.
        """
        path = Path(path)
        if path.suffix != ".svg":
            raise ValueError(f"path must end in .svg, got {path.name!r}: a Picture is a vector drawing.")
        path.write_text(self.svg, encoding="utf-8")
        return path
