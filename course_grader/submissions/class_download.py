"""Recognise a whole class's download of Moodle or Canvas where one student's submission is expected."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .collector import FileCollector
from .student_names import NOTEBOOK_SUFFIX, ZIP_SUFFIX, SubmissionName, parse_submission_name
from .visible_text import escape_hidden


def platform_names(names: Iterable[str], student: str) -> dict[str, SubmissionName]:
    """Find folders and hand-ins, at any depth, that Moodle or Canvas named after other students.

    Of Canvas's, only notebooks and zips: a picture that a telephone names by date and time looks the same.
    """
    recognised = {}
    for parts in (name.split("/") for name in names):
        for number, part in enumerate(parts, 1):
            name = parse_submission_name(part, number < len(parts))
            is_read = part.lower().endswith((NOTEBOOK_SUFFIX, ZIP_SUFFIX))
            if name and (name.from_moodle or (name.from_canvas and is_read)) and name.student != student:
                recognised[part] = name
    return recognised


def refuse_class_download(
    path: Path, collector: FileCollector, holder: SubmissionName, alone: bool, beside_download: bool
) -> None:
    """Raise ValueError if one student's files carry names that Moodle or Canvas gave to two others, at any depth.

    One such name may be a student's joke, which must not stop the grading of others; `survey` tells it. It is enough in
    a folder that the teacher made: beside what Moodle or Canvas named, and one of Moodle's if it is the only folder.
    """
    recognised = platform_names((*(file.name for file in collector.files), *collector.other_names), holder.student)
    if not recognised:
        return
    part, name = next(iter(recognised.items()))
    is_conclusive = beside_download or (alone and any(name.from_moodle for name in recognised.values()))
    if len({name.student for name in recognised.values()}) > 1 or (is_conclusive and not holder.from_platform):
        unpack = "unpack it, and " if any(file.member is not None for file in collector.files) else ""
        raise ValueError(
            f"{path} holds '{escape_hidden(part)}', as a whole class's download from "
            f"{'Moodle' if name.from_moodle else 'Canvas'} does: {unpack}give the folder that directly "
            "holds what each student handed in. If it is one student's after all, rename that."
        )
