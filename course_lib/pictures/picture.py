"""A picture that also says in words what it shows."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path


class Picture:
    """A drawing and the same thing in words, both made from the same data.

    In a notebook it shows as an image with alternative text and a caption, in a form that survives a notebook that is
    not trusted. Its steps, if it has any, fold out below it one at a time, without a kernel and with the keyboard
    alone. In a terminal it prints its words.

    Args:
        svg: the drawing.
        words: what the drawing shows, for who can't see it.
        caption: one sentence below the drawing.
        steps: pictures to step through; the caption of each is the line that folds it out.

    Attributes:
        svg, words, caption, steps: as given.
    """

    def __init__(self, *, svg: str, words: str, caption: str, steps: Sequence[Picture] = ()) -> None:
        self.svg = svg
        self.words = words
        self.caption = caption
        self.steps = tuple(steps)

    def __repr__(self) -> str:
        return f"{self.words}\n{self.caption}"

    def _repr_html_(self) -> str:
        group = hashlib.sha256(self.svg.encode()).hexdigest()[:8]  # opening one step closes its neighbour
        steps = "".join(
            f'<details name="steps-{group}"><summary>{escape(step.caption)}</summary>{step._image()}</details>'
            for step in self.steps
        )
        return f"<figure>{self._image()}<figcaption>{escape(self.caption)}</figcaption>{steps}</figure>"

    def _image(self) -> str:
        data = base64.b64encode(self.svg.encode()).decode()
        return f'<img alt="{escape(self.words)}" src="data:image/svg+xml;base64,{data}">'

    def above(self, other: Picture, *, caption: str) -> Picture:
        """Put another picture below this one, in one drawing.

        Args:
            other: the lower one.
            caption: of both together.

        Returns:
            Picture with the words of both and the steps of both.
        """
        (width, height), (other_width, other_height) = (_size(one.svg) for one in (self, other))
        whole = max(width, other_width), height + 12 + other_height
        below = other.svg.replace("<svg ", f'<svg y="{height + 12}" ', 1)
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole[0]}" height="{whole[1]}">{self.svg}{below}</svg>'
        words = f"{self.words}\n{other.words}"
        return Picture(svg=svg, words=words, caption=caption, steps=(*self.steps, *other.steps))

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


def _size(svg: str) -> tuple[int, int]:
    width, height = re.search(r'<svg [^>]*?width="(\d+)[^>]*?height="(\d+)', svg).groups()
    return int(width), int(height)
