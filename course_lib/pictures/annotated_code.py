"""Draw lines of code, each with a note below it, up to one that is wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

from .canvas import Canvas
from .grid import card, column, label
from .picture import Picture
from .style import HIGHLIGHT, LISTING, MONO_NOTE, SPOKEN, STYLE


@dataclass(frozen=True)
class AnnotatedCode:
    """Lines as (line, note, what is wrong with it or "")."""

    lines: Sequence[tuple[str, str, str]]
    title: str
    above: str  # what the notes are
    caption: str  # one sentence to write below the drawing

    def describe(self) -> str:
        """Return the same in words."""
        return "\n".join([f"{self.title}:", *(f"{line}\n  {note}." for line, note, _ in self._marked())])

    def draw(self) -> Canvas:
        """Return the drawing."""
        pairs = []
        for line, note, wrong in self._marked():
            style = SPOKEN.but(color=HIGHLIGHT) if wrong else MONO_NOTE
            pairs.append(column([label(line, LISTING), label(note, style)], STYLE.tight))
        return card(self.title, [self.above], *pairs, gap=STYLE.near)

    def _marked(self) -> list[tuple[str, str, str]]:
        return [
            (line, f"{'✗' if wrong else '→'} {', '.join(filter(None, [note, wrong]))}", wrong)
            for line, note, wrong in self.lines
        ]


def draw_annotated_code(lines: Sequence[tuple[str, str, str]], *, title: str, above: str, caption: str) -> Picture:
    """Draw lines of code, each with a note below it.

    Args:
        lines: (line, note, what is wrong with it or "") each.
        title: The heading of the card.
        above: One sentence on what the notes are.
        caption: One sentence to write below the drawing.

    Raises:
        ValueError: If there is no line.
    """
    if not lines:
        raise ValueError("lines is empty: give at least one line of code.")
    return Picture.of(AnnotatedCode(lines, title, above, caption))
