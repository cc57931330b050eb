"""The list of lessons: every ``notebooks/NN_name.ipynb`` or ``notebooks/sources/NN_name.py``; and their exercises."""

import re
from dataclasses import dataclass
from pathlib import Path

LESSON_NAME = re.compile(r"\d\d_\w+")
LESSONS, EXERCISES, SOLUTIONS = "", "exercises", "solutions"  # the folders inside notebooks/
SOURCES = "sources"  # in each of them: the .py of its notebooks


@dataclass(frozen=True, order=True)
class Lesson:
    """One lesson: a notebook with its outputs (``ipynb``) and its reviewed source (``py``)."""

    name: str
    folder: Path

    @property
    def label(self) -> str:
        """The name, with its folder where that is not the lessons' own: ``exercises/01_exercises``."""
        return f"{self.folder.name}/{self.name}" if self.folder.name in (EXERCISES, SOLUTIONS) else self.name

    @property
    def ipynb(self) -> Path:
        return self.folder / f"{self.name}.ipynb"

    @property
    def py(self) -> Path:
        return self.folder / SOURCES / f"{self.name}.py"


def find_lessons(root: Path, names: list[str] | None = None) -> list[Lesson]:
    """List the lessons of a repository in order.

    Args:
        root: the repository's root.
        names: only these lessons; each may be a name (``03_wrapper``), the start of one (``03``) or a path
            (``notebooks/sources/03_wrapper.py``). None or an empty list means all of them.

    Returns:
        The lessons, sorted by name.

    Raises:
        ValueError: a name fits no lesson; the message lists those there are.
    """
    return find_notebooks(root, names, (LESSONS,))


def find_notebooks(
    root: Path, names: list[str] | None = None, folders: tuple[str, ...] = (LESSONS, EXERCISES, SOLUTIONS)
) -> list[Lesson]:
    """List lessons, exercises and solutions, folder by folder.

    Args:
        root: the repository's root.
        names: as in :func:`find_lessons`; ``03`` is the lesson with its exercises, ``exercises/03`` these alone, and
            ``exercises`` the exercises to all lessons.
        folders: which of the three.

    Raises:
        ValueError: a name fits no notebook.
    """
    there = [lesson for folder in folders for lesson in _in_folder(root / "notebooks" / folder)]
    if not names:
        return there
    chosen: list[Lesson] = []
    for name in names:
        path = re.sub(r"\.(py|ipynb)$", "", name.replace("\\", "/").rstrip("/"))
        *above, wanted = [part for part in path.split("/") if part != SOURCES]
        inside = wanted if wanted in (EXERCISES, SOLUTIONS) else (above or [""])[-1]
        fits = [
            lesson
            for lesson in there
            if (inside not in (EXERCISES, SOLUTIONS) or inside == lesson.folder.name)
            and (inside == wanted or lesson.name == wanted or lesson.name.startswith(wanted + "_"))
        ]
        if not fits:
            labels = ", ".join(lesson.label for lesson in there) or "none yet"
            raise ValueError(f"There is no lesson {name!r}; the lessons are: {labels}.")
        chosen += [lesson for lesson in fits if lesson not in chosen]
    return chosen


def _in_folder(folder: Path) -> list[Lesson]:
    found = {path.stem for path in (*folder.glob("*.ipynb"), *(folder / SOURCES).glob("*.py"))}
    return sorted(Lesson(name, folder) for name in found if LESSON_NAME.fullmatch(name))
