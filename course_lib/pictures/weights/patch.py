"""Draw which part of a head is taken from another run."""

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import card, column, label
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import BOLD, HEADS, SMALL, SMALL_NOTE, STYLE, TEXT

BOX = STYLE.column_name  # width of a box


@dataclass(frozen=True)
class PatchScene:
    """Two runs, and the part that goes from the second into the first."""

    here: str
    there: str
    parts: Sequence[str]
    patched: str

    @property
    def title(self) -> str:
        return f"The {self.patched} of one head come from the other run"

    @property
    def caption(self) -> str:
        return f"Everything else is the run on {self.here}'s story."

    def describe(self) -> str:
        own = [part for part in self.parts if part != self.patched]
        taken = f"{self.patched}: {self.there}'s, {self.there} → {self.here}"
        return f"{self.title}. {' and '.join(own)}: {self.here}'s; {taken}."

    def draw(self) -> Canvas:
        whose = [self.there if part == self.patched else self.here for part in self.parts]
        return card(
            self.title,
            [],
            column(
                [
                    label(f"the run on {self.here}'s story", BOLD),
                    self._boxes(whose),
                    self._arrow(),
                    self._boxes([self.there] * len(self.parts)),
                    label(f"the run on {self.there}'s story", BOLD),
                ],
                STYLE.between,
            ),
        )

    def _boxes(self, whose: Sequence[str]) -> Canvas:
        """A box for each part, in the colour of the run that it comes from."""
        boxes = Canvas()
        for number, name in enumerate(whose):
            x = number * (BOX + STYLE.near)
            boxes.cells([(x, 0)], HEADS[name == self.there], width=BOX, height=2 * STYLE.cell)
            boxes.text(x + BOX / 2, TEXT.base(STYLE.cell), self.parts[number], TEXT, anchor="middle")
            boxes.text(x + BOX / 2, STYLE.cell + SMALL.base(STYLE.cell), f"{name}'s", SMALL, anchor="middle")
        return boxes

    def _arrow(self) -> Canvas:
        """An arrow up, from the part below to the part above."""
        drawing = Canvas()
        x = self.parts.index(self.patched) * (BOX + STYLE.near) + BOX / 2
        top, low = STYLE.between, STYLE.near
        drawing.lines([(x, top, x, STYLE.cell), (x, top, x - STYLE.tight, low), (x, top, x + STYLE.tight, low)])
        first = self.patched == self.parts[0]
        at, anchor = (x + STYLE.near, "start") if first else (x - STYLE.near, "end")
        drawing.text(at, SMALL_NOTE.base(STYLE.cell), "taken from there", SMALL_NOTE, anchor=anchor)
        return drawing


def draw_patch(here: str, there: str, parts: Sequence[str], patched: str) -> Picture:
    """Draw an exchange between two runs: of one head, one part comes from the other run.

    Args:
        here: Whose story is read.
        there: Whose story the other run reads.
        parts: What a head has, such as queries, keys and values.
        patched: The one of them that is taken from the other run.

    Raises:
        ValueError: If patched isn't one of the parts, or the two runs have the same name.
    """
    if patched not in parts:
        raise ValueError(f"patched is {patched!r}: give one of {', '.join(map(repr, parts))}.")
    if here == there:
        raise ValueError(f"here and there are both {here!r}: give the two runs different names.")
    return Picture.of(PatchScene(here, there, tuple(parts), patched))
