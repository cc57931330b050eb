"""Link to a lesson's notebook near the learner's own, and to a mistake's page in the web book."""

import os
from pathlib import Path
from urllib.parse import quote

from course_lib.about import page_of
from course_lib.mistakes import CATALOGUE
from course_lib.workspace import FOLDERS

from .progress_location import current_folder

SEARCHED_FOLDERS = 3  # lessons are looked for in the kernel's folder and in those above it


def lesson_page(lesson: str, section: str = "") -> str | None:
    """Find a lesson's notebook, starting from the folder that the kernel runs in.

    Args:
        lesson: number of the lesson, such as "01".
        section: a heading in it.

    Returns:
        A relative address that JupyterLab follows, or None if no such notebook is found.
    """
    here = current_folder()
    if here is None:
        return None
    for folder in (here, *here.parents)[:SEARCHED_FOLDERS]:
        for candidate in (folder, folder / FOLDERS[""], folder / "notebooks"):
            found = [file for file in candidate.glob(f"{lesson}_*.ipynb") if not file.match(f"{lesson}_exercises*")]
            if found:
                file = min(found, key=lambda file: (len(file.name), file.name))  # not a copy named ...-Copy1
                address = quote(Path(os.path.relpath(file, here)).as_posix())
                # JupyterLab compares the heading with these characters unencoded.
                return f"{address}#{quote(section.replace(' ', '-'), safe='?:,^')}" if section else address
    return None


def mistake_page(mistake: str) -> str | None:
    """Return the address of a mistake's page; None if it is not in the catalogue or no address is known."""
    return page_of(mistake) if mistake in CATALOGUE else None
