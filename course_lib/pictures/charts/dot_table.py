"""A table of dots: which check finds which fault."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import card
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import HEADS, PLAIN, SMALL, STYLE, WHITE
from course_lib.pictures.table import Label, Table
from course_lib.wording import counted, listed

from .measurements import check_mapping

DOT = "●"


@dataclass(frozen=True)
class DotScene:
    """Which check finds which fault."""

    found: Mapping[str, Mapping[str, bool]]
    title: str

    @property
    def columns(self) -> list[str]:
        return list(next(iter(self.found.values())))

    @property
    def counts(self) -> dict[str, int]:
        """How many faults each check finds."""
        return {column: sum(row[column] for row in self.found.values()) for column in self.columns}

    @property
    def caption(self) -> str:
        return "A dot: the check above finds the fault on the left. The last row counts the dots of each column."

    def describe(self) -> str:
        lines = [self.title if self.title.endswith((".", "?", "!")) else f"{self.title}."]
        for name, row in self.found.items():
            checks = [column for column in self.columns if row[column]]
            lines.append(f"{name}: found by {listed(checks) if checks else 'none'}.")
        counts = ", ".join(f"{column} {count}" for column, count in self.counts.items())
        return "\n".join([*lines, f"Found of {counted(len(self.found), 'fault')}: {counts}."])

    def draw(self) -> Canvas:
        cells = [
            [(DOT, HEADS[1]) if row[column] else ("", PLAIN) for column in self.columns] for row in self.found.values()
        ]
        labels = [SMALL.clip(column, STYLE.column_name) for column in self.columns]
        width = max(STYLE.number_cell, *(ceil(SMALL.width(label)) + STYLE.near for label in labels))
        table = Table(
            [*cells, [(str(count), WHITE) for count in self.counts.values()]],
            rows=[*self.found, f"found of {len(self.found)}"],
            above=[Label(label) for label in labels],
            cell=(width, STYLE.flat_cell + STYLE.tight),
            row_style=SMALL,
        )
        return card(self.title, [], table.draw())


def dot_table(found: Mapping[str, Mapping[str, bool]], *, title: str) -> Picture:
    """Draw which check finds which fault, and how many each check finds.

    Args:
        found: fault -> check -> whether the check finds it, with the same checks for all faults; names longer than a
            label are cut in the drawing and complete in the words.
        title: the title above the drawing.

    Raises:
        ValueError: If there is no fault or no check, faults have different checks, or there are too many checks to fit.
        TypeError: If found isn't a mapping of mappings, or holds anything else than True and False.

    Example:
        >>> print(dot_table({"typo": {"eye": True, "test": False}}, title="Who sees it").description)
        Who sees it.
        typo: found by eye.
        Found of 1 fault: eye 1, test 0.
    """
    check_mapping("found", found, "fault -> check -> bool")
    rows = {name: dict(_checked(name, row)) for name, row in found.items()}
    first = next(iter(rows.values()))
    for name, row in rows.items():
        if row.keys() != first.keys():
            raise ValueError(
                f"found[{name!r}] has the checks {list(row)}, the first fault {list(first)}: give the same."
            )
    scene = DotScene({name: {check: row[check] for check in first} for name, row in rows.items()}, title)
    if scene.draw().width > STYLE.width:
        raise ValueError(
            f"found has {len(first)} checks, which don't fit side by side: shorten their names or split it."
        )
    return Picture.of(scene)


def _checked(name: str, row: Mapping[str, bool]) -> Mapping[str, bool]:
    check_mapping(f"found[{name!r}]", row, "check -> bool")
    for check, value in row.items():
        if not isinstance(value, bool):
            raise TypeError(f"found[{name!r}][{check!r}] is {value!r}: it must be True or False.")
    return row
