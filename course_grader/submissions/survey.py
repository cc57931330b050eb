"""Tell the teacher what is odd about a class's folder as a whole: files that nobody reads, one time for all."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from course_lib.wording import first_of

from .collector import is_noise
from .discovery import Submission, submission_name
from .visible_text import escape_hidden

SAME_TIME = 60.0  # seconds in which a whole class's files are downloaded, but not handed in
MAX_NAMES = 100  # of students' files in one sentence; exercises.csv has all


def survey(folder: Path, found: Sequence[Submission]) -> list[str]:
    """Return sentences on what `find_submissions` found in a folder; none if nothing is odd."""
    return [*_unread(folder, found), *_one_time(found), *_several_people(found)]


def _unread(folder: Path, found: Sequence[Submission]) -> list[str]:
    with os.scandir(folder) as entries:
        nobodys = sorted(
            escape_hidden(one.name) for one in entries if submission_name(one) is None and not is_noise(one.name)
        )
    students = [f"{name} of {one.student}" for one in found for name in one.unread]
    remedy = "only notebooks, zips and folders are; if one is a student's, unpack it into a folder of that name"
    sentences = [f"Not read, and so no student's: {', '.join(nobodys)} ({remedy})."] * bool(nobodys)
    shown = first_of(students, MAX_NAMES, len(students))
    return sentences + [f"Not read, because only notebooks are: {shown}."] * bool(students)


def _one_time(found: Sequence[Submission]) -> list[str]:
    times = [file.submitted_at for one in found for file in one.files]
    students = sum(bool(one.files) for one in found)
    if students < 3 or max(times) - min(times) > SAME_TIME:
        return []
    moment = f"{datetime.fromtimestamp(min(times)).astimezone():%Y-%m-%d %H:%M}"
    return [
        f"All files bear one time, {moment}: that of the download, it seems, and not of handing in. By it nobody, or "
        "everybody, is late, and which of two versions came last can't be told."
    ]


def _several_people(found: Sequence[Submission]) -> list[str]:
    """Ask about who may be several people, or nobody; in what Moodle or Canvas named, all is one student's own."""
    sentences = []
    for one in (one for one in found if not one.reply):
        folders_of: defaultdict[str, set[str]] = defaultdict(set)  # lesson by the file's name, or "" -> folders
        for file in one.files:
            folder, _, name = file.name.rpartition("/")
            folders_of[re.sub(r"^(\d\d_)?.*", r"\1", name)] |= {folder} - {""}
        folders = max((folders_of[""] | some for some in [*folders_of.values()]), key=len, default=set())
        if len(folders) > 1:
            places = first_of(sorted(folders), 3, len(folders))
            sentences.append(
                f"{one.student} is graded as one student, with notebooks in {places}: if these are students, unpack "
                "what is zipped, and give the folder that holds them."
            )
        if re.fullmatch(r"\d\d_exercises.*", one.student):
            sentences.append(
                f"{one.student} is graded as a student: if it is the sheet that you handed out, remove it."
            )
    return sentences
