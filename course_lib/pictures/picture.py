"""A picture that also describes in words what it shows, and the scene from which both are made."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Protocol

from .canvas import Canvas
from .dark import with_dark_colors
from .drawing_width import on_a_phone
from .grid import card
from .style import STYLE

PHONE = "(max-width: 575px)"  # screens that show the drawing for a phone
FITS = 1.15  # a drawing at most this much wider than a phone is shown a little smaller


class Panel(Protocol):
    """A part of a scene that describes itself in words, for readers who can't see it, and draws itself."""

    def describe(self) -> str: ...

    def draw(self) -> Canvas: ...


class Scene(Panel, Protocol):
    """Everything that one picture shows: a frozen dataclass, from which both the words and the drawing are made."""

    @property
    def title(self) -> str:
        """Return the title above the drawing."""
        ...

    @property
    def caption(self) -> str:
        """Return one sentence to write below the drawing."""
        ...


@dataclass(frozen=True)
class Panels:
    """A scene of panels, one below the other."""

    panels: Sequence[Panel]
    title: str
    note: str  # how to read them
    caption: str
    introduction: str = ""

    def describe(self) -> str:
        return "\n".join(filter(None, [self.introduction, *(panel.describe() for panel in self.panels)]))

    def draw(self) -> Canvas:
        return card(self.title, [self.note], *(panel.draw() for panel in self.panels))


class Picture:
    """A drawing and a description of it in words, both made from the same data.

    In a notebook it is displayed as an image with alternative text and a caption, in a form that works in a notebook
    that is not trusted. Its steps, if any, fold out below it one at a time, without a kernel and with the keyboard
    alone. In a terminal its description is printed.

    Args:
        svg: the drawing, which gets colours for dark surroundings if it has none.
        portrait: the same drawing for a phone held upright; "" if there is only the wide one.
        description: what the drawing shows, in words, used as its alternative text.
        caption: one sentence below the drawing.
        steps: pictures to step through; the caption of each is the line that opens it.
    """

    def __init__(
        self, *, svg: str, description: str, caption: str, steps: Sequence[Picture] = (), portrait: str = ""
    ) -> None:
        self.svg = with_dark_colors(svg)
        self.portrait = with_dark_colors(portrait) if portrait else ""
        self.description = description
        self.caption = caption
        self.steps = tuple(steps)

    @classmethod
    def of(cls, scene: Scene, steps: Sequence[Scene] = ()) -> Picture:
        """Draw and describe a scene, and the scenes to step through, if there are any."""
        pictures = [cls.of(step) for step in steps]
        wide = scene.draw()
        with on_a_phone():
            narrow = scene.draw()
        return cls(
            svg=wide.svg(),
            portrait=narrow.svg() if narrow.width < min(wide.width, FITS * STYLE.narrow) else "",
            description=scene.describe(),
            caption=scene.caption,
            steps=pictures,
        )

    def __repr__(self) -> str:
        return f"{self.description}\n{self.caption}"

    def _repr_html_(self) -> str:
        group = hashlib.sha256(self.svg.encode()).hexdigest()[:8]  # opening one step closes the others
        steps = "".join(
            f'<details name="steps-{group}"><summary>{escape(step.caption)}</summary>{step._image()}</details>'
            for step in self.steps
        )
        return f"<figure>{self._image()}<figcaption>{escape(self.caption)}</figcaption>{steps}</figure>"

    def _image(self) -> str:
        image = f'<img alt="{escape(self.description)}" src="{_data(self.svg)}">'
        if not self.portrait:
            return image
        return f'<picture><source media="{PHONE}" srcset="{_data(self.portrait)}">{image}</picture>'

    def above(self, other: Picture, *, caption: str) -> Picture:
        """Put another picture below this one, in one drawing with the descriptions and the steps of both."""
        svg, portrait = _above(self.svg, other.svg), ""
        if self.portrait or other.portrait:
            portrait = _above(self.portrait or self.svg, other.portrait or other.svg)
        description = f"{self.description}\n{other.description}"
        steps = (*self.steps, *other.steps)
        return Picture(svg=svg, portrait=portrait, description=description, caption=caption, steps=steps)

    def save(self, path: str | Path) -> Path:
        """Write the drawing to a file, whose path must end in .svg, and return the path.

        Raises:
            ValueError: If the path doesn't end in .svg.
        """
        path = Path(path)
        if path.suffix != ".svg":
            raise ValueError(f"path must end in .svg, got {path.name!r}: a Picture is a vector drawing.")
        path.write_text(self.svg, encoding="utf-8")
        return path


def _data(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


def _above(upper: str, lower: str) -> str:
    (width, height), (lower_width, lower_height) = _size(upper), _size(lower)
    top = height + STYLE.gap
    shifted = lower.replace("<svg ", f'<svg y="{top}" ', 1)
    size = f'width="{max(width, lower_width)}" height="{top + lower_height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{upper}{shifted}</svg>'


def _size(svg: str) -> tuple[int, int]:
    match = re.search(r'<svg [^>]*?width="(\d+)[^>]*?height="(\d+)', svg)
    if match is None:
        raise ValueError("svg has no width and height in pixels: only drawings of this library can be put together.")
    return int(match[1]), int(match[2])
