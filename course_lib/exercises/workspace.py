"""Where progress is kept: in a file of the learner's workspace, or nowhere."""

from __future__ import annotations

import os
from pathlib import Path

from course_lib.workspace import find_workspace

FILE = ".attention-course-progress.json"
VARIABLE = "COURSE_PROGRESS"  # the path of a file, or off


def is_off() -> bool:
    """Whether the environment says that nothing is kept."""
    return os.environ.get(VARIABLE, "").strip().lower() == "off"


def file_of_progress() -> Path | None:
    """Find the file, whether it is there yet or not.

    Returns:
        What COURSE_PROGRESS names, else FILE in the learner's workspace, at or above the current folder; None outside
        of every workspace, as in the course's own repository, and where COURSE_PROGRESS is off.
    """
    if is_off():
        return None
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    try:
        workspace = find_workspace(Path.cwd())
    except OSError:  # the folder has been removed, or one above it may not be looked into
        return None
    return workspace / FILE if workspace else None


def current_folder() -> Path | None:
    """The folder that the kernel runs in, or None where it has been removed."""
    try:
        return Path.cwd()
    except OSError:
        return None
