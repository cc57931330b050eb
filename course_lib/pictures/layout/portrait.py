"""A scene of layout steps for a narrow screen: tensors below each other, memory in short rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import column, label
from course_lib.pictures.style import BOLD, HEADING, NOTE, STYLE, TITLE, TextStyle
from course_lib.pictures.table import Table

from .scene import LayoutScene, PathScene


@dataclass(frozen=True, eq=False)
class PortraitScene:
    """The same tensors and words as a LayoutScene, in a column."""

    scene: LayoutScene

    @property
    def title(self) -> str:
        return self.scene.title

    @property
    def caption(self) -> str:
        return self.scene.caption

    def describe(self) -> str:
        return self.scene.describe()

    def draw(self) -> Canvas:
        head = column([_folded(self.title, TITLE), _folded(self.scene.note, NOTE)], STYLE.near)
        paths = [column(_panels(path), STYLE.gap) for path in self.scene.paths]
        return column([head, *paths, _folded(self.scene.not_drawn, NOTE)], STYLE.apart)


def _panels(path: PathScene) -> Iterator[Canvas]:
    yield from (panel.draw() for panel in path.sources)
    for panel in path.states:
        yield column([_folded(f"↓ {panel.state.op}: {panel.state.effect}", HEADING), panel.draw()], STYLE.gap)
    for said, slots in path.memories():
        parts = [part.draw() for part in _parts(slots)]
        yield column([label("memory", BOLD), _folded(said, NOTE), *parts], STYLE.tight)


def _parts(slots: Table) -> Iterator[Table]:
    """Divide a row of slots into rows that fit, each of whole tokens where a token fits."""
    start, labels = 0, []
    for below in [*slots.below, None]:
        used = sum(one.columns for one in labels)
        if below is None or (labels and used + below.columns > STYLE.narrow // STYLE.pitch):
            inside = range(start, start + used)
            outlined = [box._replace(column=box.column - start) for box in slots.outlined if box.column in inside]
            cells = [slots.cells[0][start : start + used]]
            yield replace(slots, cells=cells, below=labels, outlined=outlined)
            start, labels = start + used, []
        labels = [*labels, below] if below else labels


def _folded(text: str, style: TextStyle) -> Canvas:
    """Break a text into lines that fit."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        lines = [*lines[:-1], longer] if style.width(longer) <= STYLE.narrow else [*lines, word]
    return column([label(line, style) for line in lines], STYLE.tight)
