"""Draw a matrix product."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import check_highlight, check_num_heads, first_sample, token_labels
from course_lib.pictures.grid import card, column, label, wrap
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import ALERT, NOTE, STYLE
from course_lib.pictures.table import COLUMNS, ROWS, Box
from course_lib.pictures.text import minus, number_text
from course_lib.wording import span

from .number_table import by_head, number_table

MOST_COLUMNS = 19  # of the three matrices together; with more, each is drawn in part,
PART = 5  # with this many columns


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """left @ right = result, for one sample."""

    left: Tensor  # (token, d_in)
    right: Tensor  # (d_in, width)
    num_samples: int
    names: Sequence[str]  # of left, right and the result
    words: Sequence[str]  # labels of the tokens
    num_heads: int | None  # in the width, head after head
    most: int  # columns of each matrix that are drawn
    highlight: tuple[int, int] | None  # token and column of the highlighted element of the result
    title: str
    caption = "Each element of the result is one row of the left times one column of the right."

    @cached_property
    def result(self) -> Tensor:
        """The product, (token, width)."""
        return self.left @ self.right

    def _sum(self, token: int, column_index: int) -> str:
        """Write an element of the result as a sum: 0.10 · 0.20 + 0.30 · 0.40 = 0.14."""
        pairs = zip(self.left[token].tolist(), self.right[:, column_index].tolist(), strict=True)
        factors = ([number_text(factor, decimals=True) for factor in pair] for pair in pairs)
        terms = " + ".join(f"{a} · ({b})" if b.startswith("-") else f"{a} · {b}" for a, b in factors)
        return minus(f"{terms} = {number_text(self.result[token, column_index].item(), decimals=True)}")

    def describe(self) -> str:
        shapes = [tuple(table.shape) for table in (self.left, self.right, self.result)]
        left, right, result = (f"{name} {shape}" for name, shape in zip(self.names, shapes, strict=True))
        text = f"{left} times {right} gives {result}."
        if self.num_heads:
            size = self.right.shape[1] // self.num_heads
            heads = [f"{span(h * size, (h + 1) * size - 1)} are head {h}" for h in range(self.num_heads)]
            text += f" Columns {', '.join(heads)}: each head has columns of its own."
        if self.highlight is not None:
            token, column_index = self.highlight
            text += f" Row {self.words[token]}, column {column_index}: {self._sum(token, column_index)}"
            text += ", rounded to two decimals."
        return text + (f" Sample 0 of {self.num_samples} is drawn." if self.num_samples > 1 else "")

    def draw(self) -> Canvas:
        depth, width = self.right.shape
        boxes, caption = [], Canvas()
        if self.highlight is not None:
            token, column_index = self.highlight
            boxes = [Box(token, 0, 1, depth), Box(0, column_index, depth, 1), Box(token, column_index)]
            note = label(f"The outlined element, {self.words[token]} (all rounded to two decimals):", NOTE)
            caption = column([note, label(self._sum(token, column_index), ALERT)], STYLE.tight)
        look, above = by_head(width, self.num_heads, self.most)
        name, other, product = self.names
        by_width = partial(number_table, above=above, look=look, most=self.most)
        left = number_table(self.left, name, rows=self.words, most=self.most, outlined=boxes[:1]).draw()
        right = by_width(self.right, other, outlined=boxes[1:2]).draw()
        result = by_width(self.result, product, rows=self.words, outlined=boxes[2:]).draw()
        return card(self.title, [], wrap([left, ("@", right), ("=", result)]), caption)


def draw_matrix_product(
    left: Tensor,
    right: Tensor,
    *,
    names: Sequence[str] = ("x", "W", "queries"),
    words: Sequence[object] | None = None,
    num_heads: int | None = None,
    highlight: Sequence[int] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw left @ right = result with its elements; the result is computed here.

    `nn.Linear` stores its matrix as (out, in), so pass `projection.weight.T`.

    Args:
        left: (token, d_in), or (batch, token, d_in) of which the first sample is drawn.
        right: (d_in, width).
        names: the names of left, right and the result.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        num_heads: number of heads that the width is divided into, head after head; not divided if None.
        highlight: index of an element of the result, such as (2, 3), or (0, 2, 3) if left has a batch; the element is
            outlined and its sum written out.
        title: the title above the drawing; "names[0] @ names[1] = names[2]" if None.

    Raises:
        ValueError: If the shapes can't be multiplied, num_heads does not divide the width, highlight is not an index of
            the result or lies outside the part that is drawn, or words do not fit.
        TypeError: If left or right isn't a tensor.
    """
    rows, columns = first_sample(left, "left", "token d_in"), first_sample(right, "right", "d_in width")
    if rows.shape[1] != columns.shape[0]:
        raise ValueError(
            f"left {tuple(rows.shape)} and right {tuple(columns.shape)} can't be multiplied: the last axis of left "
            "must be as long as the first of right (give an nn.Linear's weight.T)."
        )
    most = COLUMNS if rows.shape[1] + 2 * columns.shape[1] <= MOST_COLUMNS else PART
    if highlight is not None:
        *sample, token, column_index = check_highlight(highlight, (*left.shape[:-1], columns.shape[1]), "the result")
        if any(sample):
            raise ValueError(f"highlight={tuple(highlight)} lies in sample {sample[0]}, but sample 0 is drawn.")
        highlight = token, column_index
        if token >= ROWS or column_index >= most or len(columns) > most:
            raise ValueError(f"highlight={highlight} lies outside the {ROWS} by {most} elements that are drawn.")
    num_samples, labels = len(left) if left.dim() > rows.dim() else 1, token_labels(words, len(rows))
    num_heads = None if num_heads is None else check_num_heads(num_heads, columns.shape[1])
    title = title or f"{names[0]} @ {names[1]} = {names[2]}"
    return Picture.of(MatrixProduct(rows, columns, num_samples, names, labels, num_heads, most, highlight, title))
