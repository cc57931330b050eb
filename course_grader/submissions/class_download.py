"""Recognise a whole class's download of Moodle or Canvas where one student's submission is expected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from .collector import MAX_DEPTH, MAX_ENTRIES
from .files_and_zips import Unreadable, list_members
from .student_names import ZIP_SUFFIX, parse_submission_name
from .visible_text import escape_hidden


def refuse_class_download(path: Path, alone: bool, beside_download: bool) -> None:
    """Refuse a folder or a zip that holds names of two students as Moodle or Canvas give them.

    One such name may be a student's joke, which must not stop the grading of others. But beside what a platform named
    itself, no student chooses the name of a folder: the teacher made this one.

    Args:
        path: The folder or zip.
        alone: Whether nobody else handed in anything; then one name of Moodle's is enough.
        beside_download: Whether Moodle or Canvas named something beside it; then one name of either is enough.

    Raises:
        ValueError: It is a whole class's download, or a part of it; the message says what to do.
    """
    students: set[str] = set()
    for entry, is_folder, zipped in islice(_entries(path, MAX_DEPTH), MAX_ENTRIES):
        name = parse_submission_name(entry, is_folder)
        if name and name.from_platform:
            students.add(name.student)
            if len(students) > 1 or beside_download or (alone and name.from_moodle):
                raise ValueError(
                    f"{path} holds '{escape_hidden(entry)}', as a whole class's download from "
                    f"{'Moodle' if name.from_moodle else 'Canvas'} does: {'unpack it, and ' if zipped else ''}give the "
                    "folder that directly holds what each student handed in. If it is one student's after all, rename "
                    "that."
                )


def _entries(path: Path, depth: int) -> Iterator[tuple[str, bool, bool]]:
    """Yield the names in a folder or a zip, whether each is a folder, and whether it lies in a zip."""
    with suppress(OSError, Unreadable):
        if path.is_symlink():
            return
        if path.is_dir() and depth:
            for entry in sorted(os.scandir(path), key=lambda entry: entry.name):
                yield entry.name, entry.is_dir(follow_symlinks=False), False
                yield from _entries(Path(entry.path), depth - 1)
        elif path.is_file() and path.name.lower().endswith(ZIP_SUFFIX):
            for info in list_members(path):
                *folders, file = info.filename.rstrip("/").split("/")
                yield from ((folder, True, True) for folder in folders)
                yield file, info.is_dir(), True
