"""What every picture drawn by matplotlib must be: no text cut, none over another, none too small to read."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from matplotlib.backends.backend_svg import RendererSVG

SMALLEST = 7.0  # points: 9 pixels
TOLERANCE = 1.0  # points that a text may reach over an edge or another text's box, in which its letters don't lie


@dataclass
class Drawn:
    """The texts of one figure, as matplotlib's own renderer placed them, and the size of its page in points."""

    width: float
    height: float
    texts: list[tuple[str, float, np.ndarray]] = field(default_factory=list)  # text, size, its corners (4, 2)


def record_figures(monkeypatch: pytest.MonkeyPatch) -> list[Drawn]:
    """The figures that matplotlib saves from now on, as it places them."""
    drawn: list[Drawn] = []
    start, draw_text = RendererSVG.__init__, RendererSVG.draw_text

    def started(self, width, height, *args, **kwargs):
        start(self, width, height, *args, **kwargs)
        self.drawn = Drawn(width, height)

    def text_drawn(self, gc, x, y, text, font, angle, *args, **kwargs):
        if not self.drawn.texts:
            drawn.append(self.drawn)
        width, height, descent = self.get_text_width_height_descent(text, font, False)
        corners = np.array([(0, descent), (width, descent), (width, descent - height), (0, descent - height)])
        turn = -np.deg2rad(angle)
        rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        self.drawn.texts.append((text, font.get_size_in_points(), corners @ rotation + (x, y)))
        return draw_text(self, gc, x, y, text, font, angle, *args, **kwargs)

    monkeypatch.setattr(RendererSVG, "__init__", started)
    monkeypatch.setattr(RendererSVG, "draw_text", text_drawn)
    return drawn


def check_figure(figure: Drawn, *, widest: float = 870, smallest: float = SMALLEST) -> None:
    """Assert that each text lies on the page, apart from the others, and is large enough."""
    assert figure.texts
    assert figure.width * 96 / 72 <= widest, f"{figure.width * 96 / 72:.0f} pixels wide"
    for text, size, box in figure.texts:
        (left, top), (right, bottom) = box.min(axis=0), box.max(axis=0)
        inside = left >= -TOLERANCE and top >= -TOLERANCE
        inside &= right <= figure.width + TOLERANCE and bottom <= figure.height + TOLERANCE
        assert inside, f"{text!r} is cut: {left:.0f} to {right:.0f} of {figure.width:.0f}, {top:.0f} to {bottom:.0f}"
        assert size >= smallest, f"{text!r} has {size:.1f} points"
    boxes = np.array([box for *_, box in figure.texts])
    lows, highs = boxes.min(axis=1), boxes.max(axis=1)
    near = ((lows[:, None] < highs) & (lows < highs[:, None])).all(-1)  # upright rectangles around two texts overlap
    for first, second in np.argwhere(np.triu(near, 1)):
        (one, _, box), (other, _, its_box) = figure.texts[first], figure.texts[second]
        assert _apart(box, its_box), f"{one!r} and {other!r} overlap"


def _apart(corners_of: np.ndarray, other: np.ndarray) -> bool:
    """Whether a line parallel to a side of one of two rectangles lies between them."""
    for corners in (corners_of, other):
        for side in (corners[1] - corners[0], corners[2] - corners[1]):
            direction = side / max(np.linalg.norm(side), 1e-9)
            here, there = corners_of @ direction, other @ direction
            if here.max() <= there.min() + TOLERANCE or there.max() <= here.min() + TOLERANCE:
                return True
    return False
