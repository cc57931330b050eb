"""Read the code cells of a submitted notebook without trusting the file, and find the exercise that each answers."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from course_lib.exercises import SHARED, gradable, printed_text

from .files_and_zips import Unreadable
from .plain_python import defined_names, plain_python
from .safe_json import SAVE_AGAIN, parse_notebook_json
from .stubs import without_stubs_below
from .visible_text import escape_hidden

MAX_CELLS = 2000
MAX_CODE = 400_000  # characters in all code cells together

MAX_GUESSES, MAX_PRINTED = 100, 20_000  # lines and characters that are looked at
_SHARES = re.compile(r"""^share_guesses\(\s*["']?(\d\d?)["']?\s*,\s*agree\s*=\s*(\w+)""", re.MULTILINE)

Guesses = dict[str, dict[int, tuple[str, str]]]

_CELL_TYPES = ("code", "markdown", "raw", "heading", "html")


@dataclass(frozen=True)
class Cell:
    """A code cell.

    Attributes:
        number: Its number as the student counts code cells, from 1.
        source: The code as it was written.
        exercise: The exercise that it answers, if any: that for which it was made, or else the first that it defines.
        defines: The exercises whose names it defines.
        made: Whether its metadata says that it was made for the exercise.
    """

    number: int
    source: str
    exercise: str | None = None
    defines: tuple[str, ...] = ()
    is_released: bool = field(default=False, compare=False)

    @property
    def label(self) -> str:
        """Name it for a student, by its exercise or its first line: Jupyter does not show a cell's position."""
        if self.exercise:
            return f"the cell of `{self.exercise}`"
        first = next((line.strip() for line in self.source.split("\n") if line.strip()), "")
        shown = escape_hidden(first, 60).replace("`", "'")
        return f"the cell that begins with `{shown}`" if shown else "an empty cell"

    @cached_property
    def plain(self) -> tuple[str, str | None]:
        """Return its code as plain Python, and a remark on what was left out; parsed once."""
        return plain_python(self.source)


@dataclass(frozen=True)
class Notebook:
    """The code of a submitted notebook.

    Attributes:
        cells: The code cells.
        stamp: The release, its version and the number of an own sheet that the notebook claims; the student may have
            changed them.
        remarks: Sentences for the student.
        guesses: Lesson -> its guesses by number, each with what the lesson gave; none where the student doesn't agree.
        checksum: The SHA-256 of the file.
    """

    cells: tuple[Cell, ...]
    stamp: dict[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    guesses: Guesses = field(default_factory=dict, compare=False)
    checksum: str = field(default="", compare=False)

    @property
    def exercises(self) -> frozenset[str]:
        """Return the exercises that a cell was made for, or whose name a cell defines."""
        return frozenset(name for cell in self.cells for name in (cell.exercise, *cell.defines) if name)

    @property
    def released_exercises(self) -> frozenset[str]:
        """Return the exercises whose released cells the notebook holds, by their metadata."""
        return frozenset(cell.exercise for cell in self.cells if cell.is_released and cell.exercise)


def read_notebook(content: bytes) -> Notebook:
    """Read the bytes of a notebook of the current format or an old one, whole or damaged.

    Raises:
        Unreadable: The file is not a notebook, has no code, or is so large or so deeply nested that reading it would do
            harm.
    """
    data = parse_notebook_json(content)
    cells = _cells(data)
    code = [cell for cell in cells if cell.get("cell_type") == "code"]
    sources = [_source_text(cell.get("source", cell.get("input"))) for cell in code]
    if not code:
        raise Unreadable(f"It has no code cells: {SAVE_AGAIN}")
    if len(cells) > MAX_CELLS or sum(map(len, sources)) > MAX_CODE:
        raise Unreadable(
            f"It has {len(cells)} cells with {sum(map(len, sources)) / 1e6:.1f} MB of code; "
            f"up to {MAX_CELLS} cells and {MAX_CODE / 1e6:g} MB are read: hand in your answers only."
        )
    unknown = sum(cell.get("cell_type") not in _CELL_TYPES for cell in cells)
    left_out = "a cell of an unknown kind was" if unknown == 1 else f"{unknown} cells of an unknown kind were"
    numbered = enumerate(zip(code, without_stubs_below(sources), strict=True), 1)
    return Notebook(
        tuple(_cell(number, cell, source) for number, (cell, source) in numbered),
        _stamp(data),
        (f"{left_out} left out.",) if unknown else (),
        _guesses(code, sources),
        hashlib.sha256(content).hexdigest(),
    )


def _cells(data: dict[str, Any]) -> list[dict[str, Any]]:
    lists = [data.get("cells")]
    if isinstance(data.get("worksheets"), list):  # format 3
        lists += [sheet.get("cells") for sheet in data["worksheets"] if isinstance(sheet, dict)]
    cells = [cell for part in lists if isinstance(part, list) for cell in part]
    if not cells:
        raise Unreadable(f"It has no cells: {SAVE_AGAIN}")
    return [cell if isinstance(cell, dict) else {} for cell in cells]


def _source_text(source: Any) -> str:
    """Join a source into a string that any file and terminal accepts."""
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    text = source if isinstance(source, str) else ""
    return text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace").decode("utf-8")


def _cell(number: int, cell: dict[str, Any], source: str) -> Cell:
    defines: tuple[str, ...] = ()
    if any(name in source for name in gradable()):
        defines = tuple(name for name in defined_names(plain_python(source)[0]) if name in gradable())
    nbgrader = _metadata(cell, "nbgrader")
    name = nbgrader.get("grade_id") if nbgrader.get("solution") is True else None
    if isinstance(name, str) and name in gradable():
        return Cell(number, source, name, defines, is_released=True)
    return Cell(number, source, defines[0] if defines else None, defines)


def _guesses(code: list[dict[str, Any]], sources: list[str]) -> Guesses:
    """Return what `share_guesses` printed where the student agreed; anything else counts as not shared."""
    guesses: Guesses = {}
    for cell, shares in zip(code, map(_SHARES.search, sources), strict=True):
        if shares:
            lesson = shares[1].zfill(2)
            lines = printed_text(cell)[:MAX_PRINTED].split("\n")[:MAX_GUESSES] if shares[2] == "True" else ()
            said = [match for match in map(SHARED.fullmatch, lines) if match and match[1] == lesson]
            guesses[lesson] = {int(one[2]): (escape_hidden(one[3]), escape_hidden(one[4])) for one in said}
    return guesses


def _stamp(data: dict[str, Any]) -> dict[str, str]:
    stamp = _metadata(data, "attention_course")
    known = {key: stamp.get(key) for key in ("release", "version", "sheet")}
    return {key: escape_hidden(value) for key, value in known.items() if isinstance(value, str)}


def _metadata(part: dict[str, Any], key: str) -> dict[str, Any]:
    """Return what the metadata of a notebook or cell holds under a key; empty if it is not a dictionary."""
    metadata = part.get("metadata")
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, dict) else {}
