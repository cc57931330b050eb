"""Find the students and their notebooks in a folder that a teacher collected or downloaded."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path

from .class_download import refuse_class_download
from .collector import MAX_ENTRIES, TIMESTAMP_FILE, FileCollector, is_hidden
from .files_and_zips import SubmittedFile
from .student_names import SubmissionName, parse_submission_name, unambiguous_names
from .visible_text import escape_hidden

CLONED = "_submissions_"  # in the name of the folder that Classroom 50 clones a class into
REPOSITORY_FILE = ".classroom50.yml"  # Classroom 50 puts it into each student's repository


@dataclass(frozen=True)
class Submission:
    """What one student submitted.

    Attributes:
        student: The name of the folder or file.
        files: The notebooks, in the order of their names.
        remarks: Sentences about what cannot be read.
        unread: The names of files that are not read, because they are neither notebooks nor zips.
        spellings: The names in the class's folder that were taken for this student's.
        reply: The name under which Moodle or Canvas takes a file for this student, without its suffix; "" elsewhere.
    """

    student: str
    files: tuple[SubmittedFile, ...]
    remarks: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    spellings: tuple[str, ...] = ()
    reply: str = ""


def find_submissions(folder: Path) -> list[Submission]:
    """Find the students and what they submitted.

    Args:
        folder: A folder that holds, per student, a folder, a notebook or a zip named after the student; or a download
            of Moodle or Canvas. Links are not followed, nothing is unpacked to disk, and other files at the top level
            are ignored; `survey` names them.

    Returns:
        The submissions in the order of the students' names; a submission without a notebook has a remark with
        the reason.

    Raises:
        ValueError: The folder does not exist, is a file, holds no submission, or holds a whole class's download as if
            it were one student's.
    """
    remedy = "give the folder that has a folder, a notebook or a zip for each student"
    if not folder.exists():
        raise ValueError(f"folder is {folder}, which doesn't exist: {remedy}.")
    if not folder.is_dir():
        raise ValueError(f"folder is {folder}, which is a file: {remedy}.")
    collectors: dict[str, FileCollector] = {}
    spellings: dict[str, dict[str, str]] = {}  # student -> what a name says of the student -> the name
    replies: dict[str, str] = {}
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    assignments = _assignments([entry for entry in ordered if entry.is_dir(follow_symlinks=False)])
    cloned = CLONED in folder.name
    prefix = _repository_prefix(folder, [entry.name for entry in ordered if cloned or _is_repository(entry)])
    named = [
        (entry, replace(name, student=name.student.removeprefix(prefix)))
        for entry in ordered
        if (name := submission_name(entry))
    ]
    beside_download = any(name.from_platform for _, name in named)
    student_of = unambiguous_names(name for _, name in named)
    for entry, name in named:
        student = student_of[name.student]
        spellings.setdefault(student, {}).setdefault(name.student, escape_hidden(entry.name))
        # In a folder of Moodle's everything is the student's own.
        collector = collectors.setdefault(student, FileCollector(() if name.from_moodle else assignments))
        # Files in the student's folder are named relative to it.
        shown = "" if entry.is_dir(follow_symlinks=False) else name.file
        collector.add(Path(entry.path), shown, name.marked_late)
        refuse_class_download(Path(entry.path), collector, name, len(named) == 1, beside_download)
        replies[student] = _reply(entry.name, name)
    if not collectors:
        raise ValueError(f"folder is {folder}, and nobody has handed anything in there: {remedy}.")
    return [
        Submission(student, *finished.finish(), tuple(spellings[student].values()), replies[student])
        for student, finished in sorted(collectors.items())
    ]


def _is_repository(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and os.path.lexists(os.path.join(entry.path, REPOSITORY_FILE))


def _repository_prefix(folder: Path, repositories: Sequence[str]) -> str:
    """Return what stands before each student's name in the repositories of a class of Classroom 50.

    They are called CLASSROOM-ASSIGNMENT-STUDENT, in a folder CLASSROOM-ASSIGNMENT_submissions_TIME. In a folder of
    another name it is what all names begin with, up to a dash; one name alone says nothing.
    """
    prefix, found, _ = folder.name.partition(CLONED)
    if found and any(name.startswith(f"{prefix}-") for name in repositories):
        return f"{prefix}-"
    columns = zip(*(name.split("-")[:-1] for name in repositories), strict=False) if len(repositories) > 1 else ()
    return "".join(f"{parts[0]}-" for parts in takewhile(lambda parts: len(set(parts)) == 1, columns))


def _assignments(folders: Sequence[os.DirEntry[str]]) -> frozenset[str]:
    """Find the assignments of a class that nbgrader collected, as STUDENT/ASSIGNMENT/timestamp.txt.

    What one student hands in must not decide it: most students, and two at least, have to have that file.
    """
    students = Counter(name for folder in folders for name in _with_timestamp(folder))
    return frozenset(name for name, count in students.items() if count >= 2 and 2 * count > len(folders))


def _with_timestamp(folder: os.DirEntry[str]) -> Iterator[str]:
    """Yield the folders within a student's folder that hold a timestamp.txt."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in islice(entries, MAX_ENTRIES):
            if entry.is_dir(follow_symlinks=False) and os.path.lexists(os.path.join(entry.path, TIMESTAMP_FILE)):
                yield entry.name


def submission_name(entry: os.DirEntry[str]) -> SubmissionName | None:
    """Read the name of an entry of the class's folder; None if it is not a student's."""
    # A link that leads to a folder or nowhere belongs to a student too, who gets a remark about it.
    looks_like_folder = entry.is_dir() or (entry.is_symlink() and not entry.is_file())
    return None if is_hidden(entry.name) else parse_submission_name(entry.name, looks_like_folder)


def _reply(entry: str, name: SubmissionName) -> str:
    """Return how a file for the student has to be named; Canvas knows it by the number of a file that was handed in."""
    return entry.rpartition(".")[0] if name.from_canvas else f"{name.student}/feedback" * name.from_moodle
