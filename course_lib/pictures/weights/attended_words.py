"""Draw a text whose words are coloured by the attention that they get."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import check_drawable, token_labels
from course_lib.pictures.grid import card, column, label, wrap
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import BOLD, SMALL, STYLE, TEXT, weight_color

WRITTEN = 0.05  # weights from here on are written below their word
MOST_WORDS = 400
ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class AttendedWords:
    """The attention of one query over the words of a text."""

    words: Sequence[str]
    weights: Sequence[float]  # one per word
    title: str

    @property
    def most(self) -> list[int]:
        """The words with a written weight, or else the one with the largest; the largest first."""
        order = sorted(range(len(self.words)), key=lambda token: -self.weights[token])
        return [token for token in order if self.weights[token] >= WRITTEN] or order[:1]

    @property
    def caption(self) -> str:
        first = self.most[0]
        return f"Most goes to “{self.words[first]}”: {self.weights[first]:.2f}."

    def describe(self) -> str:
        weighed = ", ".join(f"“{self.words[token]}” {self.weights[token]:.2f}" for token in self.most)
        return f"{self.title}: {' '.join(self.words)}\nAttention weights: {weighed}; less to each other word."

    def draw(self) -> Canvas:
        words = [self._word(token) for token in range(len(self.words))]
        return card(
            self.title,
            ["The stronger the colour of a word, the more attention it gets."],
            wrap(words, STYLE.between, STYLE.tight),
        )

    def _word(self, token: int) -> Canvas:
        weight, written = self.weights[token], token in self.most
        look = BOLD if written else TEXT
        width = look.width(self.words[token]) + STYLE.near
        box = Canvas()
        box.cells([(0, 0)], weight_color(weight), width=width, height=STYLE.cell)
        box.text(width / 2, look.base(STYLE.cell), self.words[token], look, anchor="middle")
        return column([box, label(f"{weight:.2f}", SMALL)], STYLE.between) if written else box


def draw_attended_words(words: Sequence[object], weights: Tensor, *, title: str = "Where it looks") -> Picture:
    """Draw a text with the attention weights that one query gives to its words.

    Args:
        words: the words, or tokens, of the text.
        weights: (key), one attention weight for each of them.
        title: the title above the drawing.

    Raises:
        ValueError: If weights isn't one row of numbers from 0 to 1, or has another length than words.
        TypeError: If weights isn't a tensor of real numbers.
    """
    row = check_drawable(weights, "weights")
    if row.dim() != 1:
        raise ValueError(f"weights must be one row (key), got {tuple(row.shape)}: give the row of one query.")
    if len(row) > MOST_WORDS:
        raise ValueError(f"weights has {len(row)} keys, and {MOST_WORDS} can be drawn: give a part of the text.")
    numbers = row.double().tolist()
    if not all(-ROUNDING <= number <= 1 + ROUNDING for number in numbers):
        raise ValueError(f"weights has {min(numbers):.2f} to {max(numbers):.2f}: attention weights are from 0 to 1.")
    return Picture.of(AttendedWords(token_labels(words, len(row)), numbers, title))
