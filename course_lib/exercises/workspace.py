"""Where progress is kept: in a file of the learner's workspace, or nowhere."""

from __future__ import annotations

import os
from pathlib import Path

MARKER = ".attention-course"  # `course start` writes it into the folder that a learner works in
FILE = ".attention-course-progress.json"
VARIABLE = "COURSE_PROGRESS"  # the path of a file, or off


def is_off() -> bool:
    """Whether the environment says that nothing is kept."""
    return os.environ.get(VARIABLE, "").strip().lower() == "off"


def file_of_progress() -> Path | None:
    """Find the file, whether it is there yet or not.

    Returns:
        What COURSE_PROGRESS names, else FILE in the nearest folder, at or above the current one, that holds MARKER;
        None outside of every workspace, as in the course's own repository, and where COURSE_PROGRESS is off.
    """
    if is_off():
        return None
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    here = current_folder()
    folders = (here, *here.parents) if here else ()
    return next((folder / FILE for folder in folders if os.path.isfile(folder / MARKER)), None)


def current_folder() -> Path | None:
    """The folder that the kernel runs in, or None where it has been removed."""
    try:
        return Path.cwd()
    except OSError:
        return None
