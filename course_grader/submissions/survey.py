"""Tell the teacher what is odd about a class's folder as a whole: files that nobody reads, one time for all."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from course_lib.wording import first_of

from .collector import is_hidden, is_hidden_notebook
from .discovery import Submission, submission_name
from .visible_text import escape_hidden

SAME_TIME = 60.0  # seconds in which a whole class's files are downloaded, but not handed in


def survey(folder: Path, found: Sequence[Submission]) -> list[str]:
    """Return sentences on what `find_submissions` found in a folder; none if nothing is odd."""
    return [*_unread(folder), *_one_time(found), *_several_folders(found)]


def _unread(folder: Path) -> list[str]:
    with os.scandir(folder) as entries:
        names = [
            entry.name
            for entry in entries
            if submission_name(entry) is None and (not is_hidden(entry.name) or is_hidden_notebook(entry.name))
        ]
    shown = ", ".join(escape_hidden(name) for name in sorted(names))
    remedy = "only notebooks, zips and folders are; if one is a student's, unpack it into a folder of that name"
    return [f"Not read, and so no student's: {shown} ({remedy})."] if names else []


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


def _several_folders(found: Sequence[Submission]) -> list[str]:
    """Ask about students who have one and the same notebook in several folders, as a class in a folder would."""
    sentences = []
    for one in found:
        paths = {file.name.partition("/")[::2] for file in one.files if "/" in file.name}
        if max(Counter(name for _, name in paths).values(), default=0) > 2:
            folders = sorted({folder for folder, _ in paths})
            sentences.append(
                f"{one.student} handed in the same notebook in {first_of(folders, 3, len(folders))}: if these are "
                "students, give the folder that holds them."
            )
    return sentences
