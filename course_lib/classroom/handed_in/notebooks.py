"""A notebook that a student handed in, read without trust: the code cells, and which exercise each one answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from course_lib.classroom.handed_in.as_json import AGAIN, notebook_data
from course_lib.classroom.handed_in.cells import definitions, runnable
from course_lib.classroom.handed_in.missing import missing
from course_lib.classroom.handed_in.unreadable import Unreadable, shown
from course_lib.exercises.catalogue import EXERCISES

__all__ = ["Cell", "Sheet", "Unreadable", "missing", "read_notebook", "runnable"]

CELLS, CODE = 2000, 1_000_000

_KNOWN = ("code", "markdown", "raw", "heading", "html")


@dataclass(frozen=True)
class Cell:
    """A code cell.

    Attributes:
        number: as the student counts code cells, from 1.
        source: the code as it was written.
        exercise: the exercise that it answers, if any: the one that it was made for, else the first that it defines.
        defines: the exercises whose names it defines.
    """

    number: int
    source: str
    exercise: str | None = None
    defines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """The code of a notebook.

    Attributes:
        cells: the code cells.
        stamp: which release it says that it is of ("release", "version", "commit"); the student may have changed it.
        remarks: a sentence each.
    """

    cells: tuple[Cell, ...]
    stamp: dict[str, str] | None = None
    remarks: tuple[str, ...] = ()

    @property
    def exercises(self) -> frozenset[str]:
        """The exercises that a cell is for, or that one defines."""
        return frozenset(name for cell in self.cells for name in (cell.exercise, *cell.defines) if name)


def read_notebook(content: bytes, names: Collection[str] = tuple(EXERCISES)) -> Sheet:
    """Read a notebook, of this format or an old one, whole or damaged.

    Args:
        content: the file.
        names: of the exercises that are looked for.

    Raises:
        Unreadable: it is no notebook, or has no code, or is so large or so deep that reading it would do harm.
    """
    data = notebook_data(content)
    cells = _cells(data)
    code = [cell for cell in cells if cell.get("cell_type") == "code"]
    sources = [_text(cell.get("source", cell.get("input"))) for cell in code]
    if not code:
        raise Unreadable(f"It has no code cells: {AGAIN}")
    if len(cells) > CELLS or sum(map(len, sources)) > CODE:
        raise Unreadable(
            f"It has {len(cells)} cells with {sum(map(len, sources)) / 1e6:.1f} MB of code; "
            f"up to {CELLS} cells and {CODE / 1e6:.0f} MB are read: hand in your answers only."
        )
    odd = sum(cell.get("cell_type") not in _KNOWN for cell in cells)
    left_out = "a cell of an unknown kind was" if odd == 1 else f"{odd} cells of an unknown kind were"
    return Sheet(
        tuple(
            _cell(number, cell, source, names)
            for number, (cell, source) in enumerate(zip(code, sources, strict=True), 1)
        ),
        _stamp(data),
        (f"{left_out} left out.",) if odd else (),
    )


def _cells(data: dict[str, Any]) -> list[dict[str, Any]]:
    lists = [data.get("cells")]
    if isinstance(data.get("worksheets"), list):  # format 3
        lists += [sheet.get("cells") for sheet in data["worksheets"] if isinstance(sheet, dict)]
    cells = [cell for part in lists if isinstance(part, list) for cell in part]
    if not cells:
        raise Unreadable(f"It has no cells: {AGAIN}")
    return [cell if isinstance(cell, dict) else {} for cell in cells]


def _text(source: Any) -> str:
    """A source as one string, of which every file and every terminal can take each character."""
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    text = source if isinstance(source, str) else ""
    return text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode("utf-8")


def _cell(number: int, cell: dict[str, Any], source: str, names: Collection[str]) -> Cell:
    defines = ()
    if any(name in source for name in names):
        defines = tuple(name for name in definitions(runnable(source)[0]) if name in names)
    metadata = cell.get("metadata")
    made_for = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    if isinstance(made_for, dict) and made_for.get("solution") is True:
        name = made_for.get("grade_id")
        if isinstance(name, str) and name in names:
            return Cell(number, source, name, defines)
    return Cell(number, source, defines[0] if defines else None, defines)


def _stamp(data: dict[str, Any]) -> dict[str, str] | None:
    metadata = data.get("metadata")
    stamp = metadata.get("attention_course") if isinstance(metadata, dict) else None
    if not isinstance(stamp, dict):
        return None
    known = {key: stamp.get(key) for key in ("release", "version", "commit")}
    return {key: shown(value) for key, value in known.items() if isinstance(value, str)}
