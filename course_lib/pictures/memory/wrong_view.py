"""Draw the central mistake: splitting (batch, token, width) into heads with a view alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import check_drawable, check_num_heads, token_labels
from course_lib.pictures.coordinates import Coordinates, Legend, axes_in_width
from course_lib.pictures.grid import card, column, label, wrap
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import BOLD, HIGHLIGHT, MONO_NAME, NOTE, QUIET, SMALL, STYLE, WHITE
from course_lib.pictures.table import Table
from course_lib.pictures.text import number_text
from course_lib.wording import first_of

MOST_HEADS, MOST_TOKENS, MOST_COLUMNS = 4, 8, 6  # drawn at most; with more heads, only the first two are drawn
HOW_TO_READ = "Colour: the head a row truly belongs to. ✗: not what its label says."
LISTED_HEADS, LISTED_TOKENS = 4, 6  # in the description


@dataclass(frozen=True, eq=False)
class HeadSplit:
    """One way to split (token, width) into heads."""

    code: str
    elements: Tensor  # (head, token, head_dim): index in the sample, in reading order, of each element
    values: Tensor  # of the sample, in reading order
    legend: Legend  # which head and token each element truly belongs to

    @cached_property
    def owners(self) -> Tensor:
        """The head and the token that each row truly belongs to, (head, token, 2)."""
        first = self.elements[..., 0]
        return torch.stack([self.legend.coordinates.head[first], self.legend.coordinates.token[first]], dim=-1)

    @cached_property
    def wrong(self) -> list[list[int]]:
        """Head and token of each row whose elements don't match its label."""
        labels = torch.cartesian_prod(*map(torch.arange, self.owners.shape[:2]))  # (row, 2)
        return labels[(self.owners.flatten(0, 1) != labels).any(dim=1)].tolist()

    @property
    def count(self) -> str:
        """Count the wrong rows: "10 of 12 rows"."""
        return f"{len(self.wrong)} of {self.owners[..., 0].numel()} rows"

    @property
    def num_drawn(self) -> int:
        """The number of heads that are drawn: all if there are few, else the first two."""
        return len(self.elements) if len(self.elements) <= MOST_HEADS else 2

    def describe(self) -> str:
        """Say how many rows are wrong, with an example, and which tokens a head never sees."""
        if not self.wrong:
            return f"Right, {self.code}: all {self.owners[..., 0].numel()} rows hold what their label says."
        (head, token), words = self.wrong[0], self.legend.words
        true_head, true_token = map(int, self.owners[head, token])
        text = f"Wrong, {self.code}: {self.count} do not hold what their label says. "
        text += f"Head {head}, {words[token]} is really head {true_head}, {words[true_token]}."
        for head, seen in enumerate(self.owners[:LISTED_HEADS, :, 1].tolist()):
            unseen = [word for token, word in enumerate(words) if token not in seen]
            text += f" Head {head} never sees {first_of(unseen, LISTED_TOKENS, len(unseen))}." if unseen else ""
        return text

    def draw(self) -> Canvas:
        verdict = label(f"✓ all {self.owners[..., 0].numel()} rows are right", NOTE)
        if self.wrong:
            verdict = label(f"✗ {self.count} are wrong", BOLD.but(color=HIGHLIGHT))
        tables = wrap([self._table(head).draw() for head in range(self.num_drawn)], STYLE.panels)
        return column([column([label(self.code, MONO_NAME), verdict], STYLE.tight), tables], STYLE.gap)

    def _table(self, head: int) -> Table:
        shown = self.elements[head, :MOST_TOKENS, :MOST_COLUMNS]
        cells = [
            [(number_text(value), self.legend.color(element)) for element, value in zip(*row, strict=True)]
            for row in zip(shown.tolist(), self.values[shown].tolist(), strict=True)
        ]
        if self.elements.shape[2] > MOST_COLUMNS:
            cells = [[*row, ("…", WHITE)] for row in cells]
        widest = math.ceil(max(SMALL.width(text) for row in cells for text, _ in row))
        marks = [self._mark(head, token) for token in range(len(cells))]
        rows, size = self.legend.words[:MOST_TOKENS], (max(STYLE.cell, widest), STYLE.cell)
        return Table(cells, f"head {head}", rows, marks, cell=size)

    def _mark(self, head: int, token: int) -> tuple[str, str]:
        if [head, token] not in self.wrong:
            return "✓", QUIET
        true_head, true_token = map(int, self.owners[head, token])
        return f"✗ really: {SMALL.clip(self.legend.words[true_token], STYLE.label)}, head {true_head}", HIGHLIGHT


@dataclass(frozen=True, eq=False)
class WrongView:
    """A view alone, beside the right way to split heads."""

    wrong: HeadSplit
    right: HeadSplit
    num_samples: int  # of which the first is drawn
    title: str

    @property
    def caption(self) -> str:
        text = "Each head must hold its own slice of every token. The view alone cuts each sample into "
        return text + f"{len(self.wrong.elements)} stretches instead: {self.wrong.count} are not what their label says."

    @cached_property
    def part(self) -> str:
        """Say what part of the tensor is drawn; "" if all of it is."""
        parts = [f"sample 0 of {self.num_samples}"] if self.num_samples > 1 else []
        drawn, names = (self.wrong.num_drawn, MOST_TOKENS, MOST_COLUMNS), ("heads", "tokens", "elements of each row")
        for most, whole, name in zip(drawn, self.wrong.elements.shape, names, strict=True):
            parts += [f"the first {most} of {whole} {name}"] if most < whole else []
        return f"Drawn: {', '.join(parts)}." if parts else ""

    def describe(self) -> str:
        title = " ".join(filter(None, (f"{self.title}.", self.part)))
        return "\n".join([title, self.wrong.describe(), self.right.describe()])

    def draw(self) -> Canvas:
        both = wrap([self.wrong.draw(), self.right.draw()], STYLE.panels, STYLE.panels)
        return card(self.title, [HOW_TO_READ, self.part], both)


def draw_wrong_view(
    tensor: Tensor, *, num_heads: int, words: Sequence[object] | None = None, title: str | None = None
) -> Picture:
    """Draw what .view(batch, head, token, head_dim) makes of the heads, beside the right way to split them.

    Both ways are run on the indices of the elements, which show what each row really contains: its colour is the head
    it truly belongs to, and a row that doesn't match its label is marked.

    Args:
        tensor: (batch, token, width), such as torch.arange(24).view(1, 6, 4); its first sample is drawn.
        num_heads: number of heads, two or more, a divisor of the width.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        title: the title above the drawing.

    Raises:
        TypeError: If tensor isn't a tensor of real numbers, or num_heads isn't an integer.
        ValueError: If tensor has a different shape, there is one token or one head, num_heads does not divide the
            width, or words do not fit.

    Example:
        >>> print(draw_wrong_view(torch.arange(24).view(1, 6, 4), num_heads=2).caption)
        Each head must hold its own slice of every token. The view alone cuts each sample into 2 stretches instead: 10
        of 12 rows are not what their label says.
    """
    tensor = check_drawable(tensor, "tensor")
    if tensor.dim() != 3:
        raise ValueError(f"tensor must be (batch, token, width), got the shape {tuple(tensor.shape)}: give three axes.")
    batch, num_tokens, width = tensor.shape
    check_num_heads(num_heads, width)
    if num_heads == 1 or num_tokens == 1:
        few = "num_heads=1" if num_heads == 1 else f"tensor has one token, its shape is {tuple(tensor.shape)}"
        raise ValueError(f"{few}: both ways give the same, there is nothing to scramble. Give two or more.")
    splits = head_splits(tensor, num_heads, token_labels(words, num_tokens))
    return Picture.of(WrongView(*splits, num_samples=batch, title=title or "A view alone scrambles the heads"))


def head_splits(tensor: Tensor, num_heads: int, words: Sequence[str]) -> tuple[HeadSplit, HeadSplit]:
    """Return how a view alone splits (batch, token, width) into heads, and how a view and a transpose do."""
    batch, num_tokens, width = tensor.shape
    head_dim, index = width // num_heads, torch.arange(num_tokens * width)
    right = index.view(num_tokens, num_heads, head_dim).transpose(0, 1)  # (head, token, head_dim)
    wrong = index.view(num_heads, num_tokens, head_dim)
    coordinates = Coordinates.of(index, axes_in_width((num_tokens, width), num_heads))
    values, legend = tensor[0].flatten().cpu(), Legend(coordinates, words, highlight=None)
    view = f".view({batch}, {num_heads}, {num_tokens}, {head_dim})"
    split = f".view({batch}, {num_tokens}, {num_heads}, {head_dim}).transpose(1, 2)"
    return HeadSplit(view, wrong, values, legend), HeadSplit(split, right, values, legend)
