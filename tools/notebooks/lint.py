"""Check a stored notebook without running it: its files, metadata, tags and prose; each fault is a sentence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_grader import FOLDED, KERNELSPEC

from .address import Address
from .jupytext_pairs import differences
from .lesson_files import Lesson
from .lint_outputs import CHECKS, REMOTE, REMOTE_STYLE, paths, wide_lines
from .notebook_file import read_ipynb, read_py

MAX_BYTES = 1_000_000
_NOTEBOOK_METADATA = {"kernelspec", "language_info"}
_FOR_GRADING = {"nbgrader"}  # in exercises and solutions only
UNCHECKED = "nbval-ignore-output"  # nbval does not compare this cell's outputs
REASONS = {"versions", "timing", "trained"}  # the only accepted reasons
_FORBIDDEN_TAGS = {"nbval-skip", "nbval-raises-exception", "raises-exception", "pytest-validate-ignore-output"}
_COMMENT = re.compile(r"^\s*#\s*(NBVAL_\w+|PYTEST_VALIDATE_\w+)", re.MULTILINE)
_REMOTE_IMAGE = re.compile(r"!\[[^\]]*\]\(\s*<?(?:https?:)?//|!\[[^\]]*\]\[")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_NO_ALT_TEXT = re.compile(r"!\[\s*\]")
_FROM_JUPYTERLAB = {"jupytext"}  # added whenever a lesson is saved there; `course run` drops it


@dataclass(frozen=True)
class Stored:
    """The files of a stored notebook, already read; exercises and solutions have no `py`."""

    lesson: Lesson
    address: Address
    ipynb: Any
    py: Any

    @property
    def code(self) -> list[Any]:
        return [cell for cell in self.ipynb.cells if cell.cell_type == "code"]


def lint(lesson: Lesson, address: Address, root: Path | None = None) -> list[str]:
    """Return a sentence per fault of a stored notebook, with its label and the number of the cell.

    Its first two cells must name the address; no output may show the path of the repository's folder, `root`.
    """
    missing = [path.name for path in (lesson.py, lesson.ipynb) if not (lesson.is_generated or path.exists())]
    if missing:
        return [f"{lesson.label}: {missing[0]} is missing; `course run {lesson.label}` makes the .ipynb from the .py."]
    stored = Stored(lesson, address, read_ipynb(lesson.ipynb), None if lesson.is_generated else read_py(lesson.py))
    checks = (counts, pair, size, metadata, opening, cells)
    faults = [*(sentence for check in checks for sentence in check(stored)), *paths(stored.code, root)]
    return [f"{lesson.label}: {sentence}" for sentence in faults]


def counts(stored: Stored) -> Iterator[str]:
    """Check that every code cell ran once, in order, in a fresh kernel."""
    for number, cell in enumerate(stored.code, start=1):
        if cell.execution_count is None:
            yield f"code cell {number} was never run."
        elif cell.execution_count != number:
            count = cell.execution_count
            yield f"code cell {number} has the execution count {count}; from a fresh kernel it is {number}."
    if not stored.code:
        yield "there is no code cell."


def pair(stored: Stored) -> Iterator[str]:
    """Check that the .py and the .ipynb have the same cells."""
    if stored.py is not None:
        yield from (f"{difference}." for difference in differences(stored.py, stored.ipynb))


def size(stored: Stored) -> Iterator[str]:
    """Check that the notebook is small enough to read on the web and to review."""
    have = stored.lesson.ipynb.stat().st_size
    if have > MAX_BYTES:
        yield f"the .ipynb has {have / 1e6:.1f} MB; at most {MAX_BYTES / 1e6:.0f} MB is allowed."


def metadata(stored: Stored) -> Iterator[str]:
    """Check that the only metadata are the kernelspec python3 and tags: no times, widgets or machine's settings."""
    have = stored.ipynb.metadata
    for key in sorted(set(have) - _NOTEBOOK_METADATA - _FROM_JUPYTERLAB):
        yield f"the notebook stores metadata.{key}; only kernelspec and language_info may be stored."
    if have.get("kernelspec") != KERNELSPEC:
        yield f"the kernelspec is {dict(have.get('kernelspec', {}))}; stored lessons carry {KERNELSPEC}."
    if have.get("language_info", {}).get("name") != "python":
        yield "the notebook does not say its language: `course run` stores language_info."
    for number, cell in enumerate(stored.ipynb.cells, start=1):
        known = {"tags"} | (_FOR_GRADING if stored.lesson.is_generated else set())
        known |= set(FOLDED) if "setup" in cell.metadata.get("tags", ()) else set()
        for key in sorted(set(cell.metadata) - known):
            yield f"cell {number} stores metadata.{key}; only tags may be stored."


def opening(stored: Stored) -> Iterator[str]:
    """Check that the first cell has the Colab link and that the first code cell is the shared setup cell."""
    cells = stored.ipynb.cells
    link = stored.address.colab(stored.lesson.label)
    if not cells or cells[0].cell_type != "markdown" or f"({link})" not in cells[0].source:
        yield f"the first cell does not hold the link [Open in Colab]({link})."
    for cell in stored.code[:1]:
        if cell.source != stored.address.setup_cell:
            yield "the first code cell is not the setup cell: copy it from another lesson."
        if cell.metadata.get("tags") != ["setup"]:
            yield 'the first code cell does not have the tags ["setup"].'
        elif not FOLDED.items() <= cell.metadata.items():
            yield "the setup cell is not folded: `course run` folds it."


def cells(stored: Stored) -> Iterator[str]:
    """Check single cells: outputs, tags and prose."""
    for check in (*CHECKS, tags, empty, wide_code):
        for number, cell in enumerate(stored.code, start=1):
            yield from (f"code cell {number} {fault}" for fault in check(cell))
    for number, cell in enumerate(stored.ipynb.cells, start=1):
        if cell.cell_type == "markdown":
            yield from (f"cell {number} {fault}" for fault in markdown(cell.source))


def tags(cell: Any) -> Iterator[str]:
    """Check that only versions, timings and results of training go unchecked, and that a tag says which it is."""
    have = set(cell.metadata.get("tags", ()))
    for tag in sorted(have & _FORBIDDEN_TAGS):
        yield f"has the tag {tag}; every cell of a lesson runs and none raises."
    if UNCHECKED in have and not have & REASONS:
        reasons = " or ".join(sorted(REASONS))
        yield f"has the tag {UNCHECKED} without a reason; only cells tagged {reasons} may go unchecked."
    for comment in _COMMENT.findall(cell.source):
        yield f"holds the comment {comment}; say it with tags instead."


def empty(cell: Any) -> Iterator[str]:
    """Report empty cells, because they look as if they were never run."""
    if not cell.source.strip():
        yield "is empty."


def wide_code(cell: Any) -> Iterator[str]:
    """Report lines of code that a laptop cuts off."""
    yield from (f"has {fault}" for fault in wide_lines(cell.source))


def markdown(source: str) -> Iterator[str]:
    """Check that a picture in the prose is in the repository and has alt text, and that no line of code is cut off."""
    for fenced in _FENCED.findall(source):
        yield from (f"has {fault}" for fault in wide_lines(fenced))
    if _REMOTE_IMAGE.search(source) or REMOTE.search(source) or REMOTE_STYLE.search(source):
        yield "shows an image that is fetched from the network."
    if _NO_ALT_TEXT.search(source):
        yield "shows an image without alt text."
