"""What can be seen to be wrong with a stored lesson without running it, a sentence for each fault."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.lessons import health_outputs, health_sources
from course_lib.lessons.address import Address
from course_lib.lessons.discover import Lesson
from course_lib.lessons.notebook_file import FOLDED, KERNELSPEC, read_ipynb, read_py
from course_lib.lessons.pairs import differences

BIGGEST = 1_000_000  # bytes
_NOTEBOOK_METADATA = {"kernelspec", "language_info"}
_FOR_GRADING = {"nbgrader"}  # in exercises and solutions only
_FROM_JUPYTERLAB = {"jupytext"}  # added whenever a lesson is saved there; `course run` drops it


@dataclass(frozen=True)
class Stored:
    """A lesson as it is stored: its files, and both of them read."""

    lesson: Lesson
    address: Address
    ipynb: Any
    py: Any

    @classmethod
    def read(cls, lesson: Lesson, address: Address) -> "Stored":
        return cls(lesson, address, read_ipynb(lesson.ipynb), read_py(lesson.py))

    @property
    def code(self) -> list[Any]:
        return [cell for cell in self.ipynb.cells if cell.cell_type == "code"]


def problems(lesson: Lesson, address: Address, root: Path | None = None) -> list[str]:
    """Return everything that is wrong with a stored lesson, a sentence each, named by lesson and cell."""
    missing = [path.name for path in (lesson.py, lesson.ipynb) if not path.exists()]
    if missing:
        return [f"{lesson.label}: {missing[0]} is missing; `course run {lesson.label}` makes the .ipynb from the .py."]
    stored = Stored.read(lesson, address)
    found = [sentence for check in CHECKS for sentence in check(stored)]
    found += health_outputs.paths(stored.code, root)
    return [f"{lesson.label}: {sentence}" for sentence in found]


def counts(stored: Stored) -> Iterator[str]:
    """Every code cell has run, in order, once, from a fresh kernel."""
    have = [cell.execution_count for cell in stored.code]
    for number, count in enumerate(have, start=1):
        if count is None:
            yield f"code cell {number} was never run."
        elif count != number:
            yield f"code cell {number} has the execution count {count}; from a fresh kernel it is {number}."
    if not have:
        yield "there is no code cell."


def pair(stored: Stored) -> Iterator[str]:
    """The .py and the .ipynb hold the same cells."""
    yield from (f"{difference}." for difference in differences(stored.py, stored.ipynb))


def size(stored: Stored) -> Iterator[str]:
    """The notebook is small enough to read on the web and to review."""
    have = stored.lesson.ipynb.stat().st_size
    if have > BIGGEST:
        yield f"the .ipynb has {have / 1e6:.1f} MB; at most {BIGGEST / 1e6:.0f} MB is allowed."


def metadata(stored: Stored) -> Iterator[str]:
    """No metadata but the kernelspec python3 and tags: no times, no widgets, no machine's own settings."""
    have = stored.ipynb.metadata
    for key in sorted(set(have) - _NOTEBOOK_METADATA - _FROM_JUPYTERLAB):
        yield f"the notebook stores metadata.{key}; only kernelspec and language_info may be stored."
    if have.get("kernelspec") != KERNELSPEC:
        yield f"the kernelspec is {dict(have.get('kernelspec', {}))}; stored lessons carry {KERNELSPEC}."
    if have.get("language_info", {}).get("name") != "python":
        yield "the notebook does not say its language: `course run` stores language_info."
    for number, cell in enumerate(stored.ipynb.cells, start=1):
        known = {"tags"} | (_FOR_GRADING if "/" in stored.lesson.label else set())
        known |= set(FOLDED) if "setup" in cell.metadata.get("tags", ()) else set()
        for key in sorted(set(cell.metadata) - known):
            yield f"cell {number} stores metadata.{key}; only tags may be stored."


def opening(stored: Stored) -> Iterator[str]:
    """The lesson opens with its Colab link, and its first code cell is the setup cell that all lessons share."""
    cells = stored.ipynb.cells
    link = stored.address.colab(stored.lesson.label)
    if not cells or cells[0].cell_type != "markdown" or f"({link})" not in cells[0].source:
        yield f"the first cell does not hold the link [Open in Colab]({link})."
    if stored.code and stored.code[0].source != stored.address.setup_cell:
        yield "the first code cell is not the setup cell: copy it from another lesson, or run `course links`."
    if stored.code and stored.code[0].metadata.get("tags") != ["setup"]:
        yield 'the first code cell does not have the tags ["setup"].'
    elif stored.code and {key: stored.code[0].metadata.get(key) for key in FOLDED} != FOLDED:
        yield "the setup cell is not folded: `course run` folds it."


def cells(stored: Stored) -> Iterator[str]:
    """What is said of single cells: see health_outputs and health_sources."""
    for check in (*health_outputs.CHECKS, *health_sources.CHECKS):
        for number, cell in enumerate(stored.code, start=1):
            yield from (f"code cell {number} {what}" for what in check(cell))
    for number, cell in enumerate(stored.ipynb.cells, start=1):
        if cell.cell_type == "markdown":
            yield from (f"cell {number} {what}" for what in health_sources.markdown(cell.source))


CHECKS: tuple[Callable[[Stored], Iterator[str]], ...] = (counts, pair, size, metadata, opening, cells)
