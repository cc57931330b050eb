"""Tell the teacher what is odd about a class's folder as a whole: unread files, identical times, unclear names."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from course_lib.wording import first_of

from .class_download import platform_names
from .collector import RESULTS, is_noise
from .discovery import Submission, submission_name
from .student_names import ONLINE_TEXT
from .visible_text import escape_hidden

SAME_TIME = 60.0  # seconds in which a whole class's files are downloaded, but not handed in
MAX_NAMES = 100  # of students' files in one sentence; exercises.csv has all


def survey(folder: Path, submissions: Sequence[Submission]) -> list[str]:
    """Return sentences on what `find_submissions` found in a folder; none if nothing is odd."""
    checks = (_identical_times, _names_of_others, _similar_names)
    return [*_unread(folder, submissions), *(sentence for check in checks for sentence in check(submissions))]


def _unread(folder: Path, submissions: Sequence[Submission]) -> list[str]:
    with os.scandir(folder) as entries:
        unread = sorted(
            entry.name
            for entry in entries
            if submission_name(entry) is None and not is_noise(entry.name) and entry.name not in RESULTS
        )
    typed = [escape_hidden(name) for name in unread if ONLINE_TEXT.fullmatch(name)]
    nobodys = [escape_hidden(name) for name in unread if not ONLINE_TEXT.fullmatch(name)]
    students = [f"{name} of {submission.student}" for submission in submissions for name in submission.unread]
    remedy = "only notebooks, zips and folders are; if one is a student's, unpack it into a folder of that name"
    sentences = [f"Not read, and so no student's: {', '.join(nobodys)} ({remedy})."] * bool(nobodys)
    groups = {"only notebooks are": students, "it was typed into Moodle, which is no hand-in here": typed}
    return sentences + [
        f"Not read, because {why}: {first_of(names, MAX_NAMES, len(names))}." for why, names in groups.items() if names
    ]


def _identical_times(submissions: Sequence[Submission]) -> list[str]:
    times = [file.submitted_at for submission in submissions for file in submission.files]
    students = sum(bool(submission.files) for submission in submissions)
    if students < 3 or max(times) - min(times) > SAME_TIME:
        return []
    moment = f"{datetime.fromtimestamp(min(times)).astimezone():%Y-%m-%d %H:%M}"
    return [
        f"All files bear one time, {moment}: that of the download, it seems, and not of handing in. By it nobody, or "
        "everybody, is late, and which of two versions came last can't be told."
    ]


def _names_of_others(submissions: Sequence[Submission]) -> list[str]:
    """Ask about names that may stand for several people or nobody; most that Moodle or Canvas named are clear."""
    sentences = []
    for submission in submissions:
        student, names = submission.student, [*(file.name for file in submission.files), *submission.unread]
        if others := platform_names(names, student):
            sentences.append(
                f"{student} is graded with what bears another student's name, {first_of(others, 3, len(others))}: "
                "if it is that student's, move it into the folder that holds all, unpacked."
            )
    for submission in submissions:
        if submission.reply:
            continue
        student = submission.student
        folders_of: defaultdict[str, set[str]] = defaultdict(set)  # lesson by the file's name, or "" -> folders
        for file in submission.files:
            folder, _, name = file.name.rpartition("/")
            folders_of[re.sub(r"^(\d\d_)?.*", r"\1", name)] |= {folder} - {""}
        folders = max((folders_of[""] | some for some in [*folders_of.values()]), key=len, default=set())
        if len(folders) > 1:
            places = first_of(sorted(folders), 3, len(folders))
            sentences.append(
                f"{student} is graded as one student, with notebooks in {places}: if these are students, unpack what "
                "is zipped, and give the folder that holds them."
            )
        if re.fullmatch(r"\d\d_exercises.*", student):
            sentences.append(f"{student} is graded as a student: if it is the sheet that you handed out, remove it.")
    return sentences


def _similar_names(submissions: Sequence[Submission]) -> list[str]:
    """Name the hand-ins that were merged although their names differ, and ask about those that were not."""
    alike: defaultdict[str, list[str]] = defaultdict(list)  # the letters of a name -> names
    for submission in submissions:
        letters = re.sub(r"^\d\d_exercises|\(\d+\)|[\W_]", "", submission.student.lower())
        alike[letters] += [submission.student] * (not submission.reply)
    groups = {
        "Graded as one student; if it is two, change a name": [submission.spellings for submission in submissions],
        "Graded apart, and may be one student; if so, give both one name": [alike[key] for key in alike if key],
    }
    shown = {what: [" and ".join(map(repr, some)) for some in names if len(some) > 1] for what, names in groups.items()}
    return [f"{what}: {first_of(names, MAX_NAMES, len(names))}." for what, names in shown.items() if names]
