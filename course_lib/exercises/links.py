"""Where to read on: a lesson's notebook near the learner's, a mistake's page in the web book."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from course_lib.about import page_of
from course_lib.workspace import FOLDERS

from .workspace import current_folder

NEAR = 3  # the kernel's folder and those above it in which lessons are looked for


def lesson_page(lesson: str, section: str = "") -> str | None:
    """Find a lesson's notebook from the folder that the kernel runs in.

    Args:
        lesson: its number, such as "01".
        section: a heading in it.

    Returns:
        A relative address as JupyterLab follows it, or None where no such notebook is near.
    """
    here = current_folder()
    if here is None:
        return None
    for folder in (here, *here.parents)[:NEAR]:
        for place in (folder, folder / FOLDERS[""], folder / "notebooks"):
            there = [file for file in place.glob(f"{lesson}_*.ipynb") if not file.match(f"{lesson}_exercises*")]
            if there:
                file = min(there, key=lambda file: (len(file.name), file.name))  # not one that is called ...-Copy1
                address = quote(Path(os.path.relpath(file, here)).as_posix())
                # JupyterLab compares the heading with these signs as they are, not encoded
                return f"{address}#{quote(section.replace(' ', '-'), safe='?:,^')}" if section else address
    return None


def mistake_page(mistake: str) -> str | None:
    """The address of a mistake's page; None for what the catalogue doesn't know, and where no address is known."""
    from course_lib.diagnosis import CATALOGUE

    return page_of(mistake) if mistake in CATALOGUE else None
