"""Who handed in what: the students and their notebooks in a folder that a teacher collected or downloaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from course_lib.classroom.handed_in.files import LIMIT, File
from course_lib.classroom.handed_in.gathering import Gathering, is_hidden
from course_lib.classroom.handed_in.owners import owner

__all__ = ["LIMIT", "File", "Submission", "find_submissions"]


@dataclass(frozen=True)
class Submission:
    """What one student handed in.

    Attributes:
        student: the name of the folder or file.
        files: the notebooks, in the order of their names.
        remarks: about what can't be read, a sentence each.
    """

    student: str
    files: tuple[File, ...]
    remarks: tuple[str, ...] = ()


def find_submissions(folder: Path) -> list[Submission]:
    """Find the students and what they handed in.

    Args:
        folder: a folder, a notebook or a zip a student, named after the student, or a download of Moodle or Canvas.
            Links are not followed, nothing is unpacked to the disk, and other files at the top are left out.

    Returns:
        The submissions in the order of the students' names; one without a notebook says why.

    Raises:
        ValueError: there is no such folder, it is a file, or nobody handed anything in.
    """
    remedy = "give the folder that has a folder, a notebook or a zip for each student"
    if not folder.exists():
        raise ValueError(f"folder is {folder}, which doesn't exist: {remedy}.")
    if not folder.is_dir():
        raise ValueError(f"folder is {folder}, which is a file: {remedy}.")
    found: dict[str, Gathering] = {}
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            # a link that leads to a folder, or nowhere, is a student's, too: it gets a remark
            whose = owner(entry.name, folder=entry.is_dir() or (entry.is_symlink() and not entry.is_file()))
            if whose is None or is_hidden(entry.name):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            found.setdefault(whose.student, Gathering()).add(
                Path(entry.path),
                "" if is_folder else whose.name,  # what lies in the student's folder is named from there
                late=whose.marked_late,
                stamps=not whose.by_moodle,  # Moodle writes none: it would be the student's own
            )
    if not found:
        raise ValueError(f"folder is {folder}, and nobody has handed anything in there: {remedy}.")
    return [Submission(student, *found[student].finished()) for student in sorted(found)]
