"""List notebooks: lessons (`notebooks/NN_name.ipynb`, `notebooks/sources/NN_name.py`), exercises, solutions."""

import re
from dataclasses import dataclass
from pathlib import Path

LESSON_NAME = re.compile(r"\d\d_\w+")
LONG_CELL = re.compile(r'^# %% tags=.*"long"', re.MULTILINE)
LESSONS, EXERCISES, SOLUTIONS = "", "exercises", "solutions"  # the folders below notebooks/
CELL_TIMEOUT = 300  # seconds; a cell that kills its kernel uses them all, and the capstone's training needs two minutes
SOURCES = "sources"  # the folder with the .py of each lesson


@dataclass(frozen=True, order=True)
class Lesson:
    """A notebook with its outputs (`ipynb`): a lesson with its reviewed source (`py`), or exercises, or solutions."""

    name: str
    folder: Path

    @property
    def label(self) -> str:
        """Return the name, with its folder unless it is a lesson: `exercises/01_exercises`."""
        return f"{self.folder.name}/{self.name}" if self.is_generated else self.name

    @property
    def is_generated(self) -> bool:
        """Whether it is made from the objects in course_lib/exercises, so that it has no `py`."""
        return self.folder.name in (EXERCISES, SOLUTIONS)

    @property
    def is_long(self) -> bool:
        """Whether it has a cell that is tagged `long`, at which a plain test ends."""
        return not self.is_generated and bool(LONG_CELL.search(self.py.read_text(encoding="utf-8")))

    @property
    def ipynb(self) -> Path:
        return self.folder / f"{self.name}.ipynb"

    @property
    def py(self) -> Path:
        return self.folder / SOURCES / f"{self.name}.py"


def find_notebooks(
    root: Path, names: list[str] | None = None, folders: tuple[str, ...] = (LESSONS, EXERCISES, SOLUTIONS)
) -> list[Lesson]:
    """List lessons, exercises and solutions of the repository `root`, folder by folder; with names, only these.

    A name may be `03_wrapper` or a path such as `notebooks/sources/03_wrapper.py`; `03` means the lesson with its
    exercises, `exercises/03` only these, and `exercises` the exercises of all lessons.

    Raises:
        ValueError: A name matches no notebook.
    """
    return choose([lesson for folder in folders for lesson in _in_folder(root / "notebooks" / folder)], names)


def choose(there: list[Lesson], names: list[str] | None) -> list[Lesson]:
    """Return the notebooks with one of these names, or all of them if there are no names.

    Raises:
        ValueError: A name matches no notebook.
    """
    if not names:
        return there
    chosen: list[Lesson] = []
    for name in names:
        matching = [lesson for lesson in there if _matches(lesson, name)]
        if not matching:
            labels = ", ".join(lesson.label for lesson in there) or "none yet"
            raise ValueError(f"There is no lesson {name!r}; the lessons are: {labels}.")
        chosen += [lesson for lesson in matching if lesson not in chosen]
    return chosen


def _matches(lesson: Lesson, name: str) -> bool:
    path = re.sub(r"\.(py|ipynb)$", "", name.replace("\\", "/").rstrip("/"))
    *above, wanted = [part for part in path.split("/") if part != SOURCES]
    folder = wanted if wanted in (EXERCISES, SOLUTIONS) else (above or [""])[-1]
    if folder in (EXERCISES, SOLUTIONS) and folder != lesson.folder.name:
        return False
    return folder == wanted or lesson.name == wanted or lesson.name.startswith(wanted + "_")


def _in_folder(folder: Path) -> list[Lesson]:
    names = {path.stem for path in (*folder.glob("*.ipynb"), *(folder / SOURCES).glob("*.py"))}
    return sorted(Lesson(name, folder) for name in names if LESSON_NAME.fullmatch(name))
