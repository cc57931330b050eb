"""Numbers that nobody has seen before: inputs for grading, drawn from a secret seed once a student's code is loaded."""

from __future__ import annotations

from .draw import Draw
from .functions import FUNCTIONS
from .made import Made, Parts, as_split, built
from .sources import SOURCES

__all__ = ["Draw", "Made", "Parts", "as_split", "built", "drawn_inputs"]


def drawn_inputs(name: str, draw: Draw) -> list[tuple]:
    """Draw the arguments of each call of a student's function.

    Args:
        name: of an exercise whose answer is a function.
        draw: where sizes and numbers come from.

    Returns:
        The arguments of three calls or more, as plain data, tensors and `Made`; `built` turns those into objects.

    Raises:
        ValueError: nothing is drawn for an exercise of that name.
    """
    drawn = FUNCTIONS | SOURCES
    if name not in drawn:
        raise ValueError(f"name is {name!r}, and no inputs are drawn for it: choose one of {', '.join(drawn)}.")
    return drawn[name](draw)
