"""Recognise a whole class's download of Moodle or Canvas where one student's submission is expected."""

from __future__ import annotations

from pathlib import Path

from .collector import FileCollector
from .student_names import parse_submission_name
from .visible_text import escape_hidden


def refuse_class_download(path: Path, collector: FileCollector, alone: bool, beside_download: bool) -> None:
    """Raise ValueError where one student's files have names of two, as Moodle or Canvas give them, at any depth.

    One such name may be a student's joke, which must not stop the grading of others. It is enough beside what Moodle or
    Canvas named, where the teacher made every other folder, and one of Moodle's if nobody else handed in anything.
    """
    students: set[str] = set()
    for parts in (name.split("/") for name in (*(file.name for file in collector.files), *collector.other_names)):
        for number, part in enumerate(parts, 1):
            name = parse_submission_name(part, number < len(parts))
            if name and name.from_platform:
                students.add(name.student)
                if len(students) > 1 or beside_download or (alone and name.from_moodle):
                    unpack = "unpack it, and " if any(file.member for file in collector.files) else ""
                    raise ValueError(
                        f"{path} holds '{escape_hidden(part)}', as a whole class's download from "
                        f"{'Moodle' if name.from_moodle else 'Canvas'} does: {unpack}give the folder that directly "
                        "holds what each student handed in. If it is one student's after all, rename that."
                    )
