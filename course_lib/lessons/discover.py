"""The list of lessons: every ``notebooks/NN_name`` that has a ``.py`` or an ``.ipynb``."""

import re
from dataclasses import dataclass
from pathlib import Path

LESSON_NAME = re.compile(r"\d\d_\w+")


@dataclass(frozen=True, order=True)
class Lesson:
    """One lesson: a notebook with its outputs (``ipynb``) and its reviewed source (``py``)."""

    name: str
    folder: Path

    @property
    def ipynb(self) -> Path:
        return self.folder / f"{self.name}.ipynb"

    @property
    def py(self) -> Path:
        return self.folder / f"{self.name}.py"


def find_lessons(root: Path, names: list[str] | None = None) -> list[Lesson]:
    """List the lessons of a repository in order.

    Args:
        root: the repository's root.
        names: only these lessons; each may be a name (``03_wrapper``), the start of one (``03``) or a path
            (``notebooks/03_wrapper.py``). None or an empty list means all of them.

    Returns:
        The lessons, sorted by name.

    Raises:
        ValueError: a name fits no lesson; the message lists those there are.
    """
    folder = root / "notebooks"
    found = {path.stem for suffix in ("py", "ipynb") for path in folder.glob(f"*.{suffix}")}
    lessons = sorted(Lesson(name, folder) for name in found if LESSON_NAME.fullmatch(name))
    if not names:
        return lessons
    chosen: list[Lesson] = []
    for name in names:
        wanted = re.sub(r"\.(py|ipynb)$", "", name.replace("\\", "/").rsplit("/", 1)[-1])
        fits = [lesson for lesson in lessons if lesson.name == wanted or lesson.name.startswith(wanted + "_")]
        if not fits:
            there = ", ".join(lesson.name for lesson in lessons) or "none yet"
            raise ValueError(f"There is no lesson {name!r}; the lessons are: {there}.")
        chosen += [lesson for lesson in fits if lesson not in chosen]
    return chosen
