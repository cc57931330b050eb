"""Tables of a tensor's values, with heads marked by colour and name."""

from collections.abc import Callable, Sequence

from torch import Tensor

from course_lib.pictures.style import PLAIN, STYLE, head_color
from course_lib.pictures.table import COLUMNS, ROWS, Box, Label, Table, labels_of
from course_lib.pictures.text import number_text

Look = Callable[[int, int, str], tuple[str, str]]  # (row, column, number) -> text and colour of a cell


def number_table(
    values: Tensor,
    title: str,
    *,
    rows: Sequence[str] = (),
    above: Sequence[Label] = (),
    look: Look | str = PLAIN,
    note: str = "",
    most: int = COLUMNS,
    outlined: Sequence[Box] = (),
) -> Table:
    """Make a table of the first rows and columns of (row, column); the note is the whole shape if none is given.

    A look that is only a colour is that of all cells.
    """
    part = values[:ROWS, :most]
    note = note or str(tuple(values.shape))
    if part.shape != values.shape:
        note += f", {part.shape[0]} by {part.shape[1]} drawn"
    texts = [[number_text(number, decimals=True) for number in row] for row in part.tolist()]
    cells = [
        [(text, look) if isinstance(look, str) else look(row, column, text) for column, text in enumerate(line)]
        for row, line in enumerate(texts)
    ]
    size = STYLE.number_cell, STYLE.cell
    return Table(cells, title, rows[:ROWS], above=above, notes=[note], outlined=outlined, cell=size)


def by_head(width: int, num_heads: int | None, most: int = COLUMNS) -> tuple[Look | str, tuple[Label, ...]]:
    """Return colours and column labels for heads side by side in a width; plain if num_heads is None."""
    if num_heads is None:
        return PLAIN, ()
    head_dim = width // num_heads
    labels = labels_of(f"head {column // head_dim}" for column in range(min(width, most)))
    return lambda row, column, text: (text, head_color(column // head_dim)), labels
