"""What the tests of pictures share."""

import pytest
from matplotlib.figure import Figure

from course_lib.pictures.canvas import Canvas

from .figure_checks import record_figures


@pytest.fixture
def drawings(monkeypatch):
    """The canvas of each picture drawn in the test."""
    drawn = []
    draw = Canvas.svg
    monkeypatch.setattr(Canvas, "svg", lambda self: (drawn.append(self), draw(self))[1])
    return drawn


@pytest.fixture
def figures(monkeypatch):
    """Each figure that matplotlib saves in the test."""
    return record_figures(monkeypatch)


@pytest.fixture
def axes(monkeypatch):
    """The axes of each chart drawn in the test."""
    drawn = []
    save = Figure.savefig

    def saved(figure, *args, **more):
        drawn.extend(figure.axes)
        save(figure, *args, **more)

    monkeypatch.setattr(Figure, "savefig", saved)
    return drawn
