"""Find the file in which progress is kept, in the learner's workspace if there is one."""

import os
from pathlib import Path

from course_lib.workspace import find_workspace

PROGRESS_FILE = ".attention-course-progress.json"
PROGRESS_VARIABLE = "COURSE_PROGRESS"  # the path of a file, or "off"


def progress_is_off() -> bool:
    """Return whether the environment turns the file off."""
    return os.environ.get(PROGRESS_VARIABLE, "").strip().lower() == "off"


def progress_path() -> Path | None:
    """Return the path of the file, which need not exist yet.

    Returns:
        The path that COURSE_PROGRESS names, else PROGRESS_FILE in the learner's workspace, at or above the current
        folder; None outside of every workspace, as in the course's own repository, and if COURSE_PROGRESS is off.
    """
    if progress_is_off():
        return None
    if named := os.environ.get(PROGRESS_VARIABLE):
        return Path(named).expanduser()
    try:
        workspace = find_workspace(Path.cwd())
    except OSError:  # the folder was removed, or one above it can't be searched
        return None
    return workspace / PROGRESS_FILE if workspace else None


def current_folder() -> Path | None:
    """Return the folder that the kernel runs in, or None if it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None
