"""What counts of several notebooks of one student: the last one before the due time; if there is none, the last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from course_lib.classroom.handed_in.files import File
from course_lib.classroom.handed_in.notebooks import Sheet
from course_lib.classroom.handed_in.owners import sheet_name
from course_lib.classroom.handed_in.unreadable import Unreadable


@dataclass(frozen=True)
class Counted:
    """What counts for each exercise.

    Attributes:
        sheet_of: exercise -> the notebook that counts; an exercise that is in none is missing here.
        late: exercise -> whether that notebook came late.
        remarks: a sentence each, for the student.
        handed_in: when the last notebook that counts came, in seconds since 1970; where none counts, the last of all.
    """

    sheet_of: dict[str, Sheet]
    late: dict[str, bool]
    remarks: tuple[str, ...]
    handed_in: float | None


def what_counts(
    files: Sequence[tuple[File, Sheet | Unreadable]],
    names: Iterable[str],
    due: float | None = None,
    release: str | None = None,
) -> Counted:
    """Find the notebook that counts for each exercise.

    Of the notebooks that have the exercise, it is the one that was handed in last before the due time; if there is
    none, the last one. Of two at the same time it is the one whose name sorts last. What is in it doesn't matter.

    Args:
        files: the notebooks of one student, each with what was read.
        names: of the exercises.
        due: the due time, in seconds since 1970. Without one, only what Canvas marks is late.
        release: the release that is graded; a notebook with another stamp gets a remark.
    """
    ordered = sorted(files, key=lambda pair: _order(pair[0]))
    counted: dict[str, tuple[File, Sheet]] = {}
    rivals: dict[str, list[File]] = {}
    for name in names:
        having = [(file, sheet) for file, sheet in ordered if isinstance(sheet, Sheet) and name in sheet.exercises]
        in_time = [(file, sheet) for file, sheet in having if not _is_late(file, due)]
        if having:
            counted[name] = (in_time or having)[-1]
            rivals[name] = [file for file, _ in having]
    remarks = [remark for file, sheet in ordered for remark in _of_one(file, sheet, release)]
    remarks += [_of_many(name, counted[name][0], rivals[name], due) for name in counted if len(rivals[name]) > 1]
    used = [file for file, _ in ordered if any(file is one for one, _ in counted.values())]
    remarks += [_of_late(file, due) for file in used if _is_late(file, due)]
    return Counted(
        {name: sheet for name, (_, sheet) in counted.items()},
        {name: _is_late(file, due) for name, (file, _) in counted.items()},
        tuple(dict.fromkeys(remarks)),  # several exercises of one notebook have the same to say
        max((file.at for file in used or (file for file, _ in files)), default=None),
    )


def _order(file: File) -> tuple[float, str, int, str]:
    return (file.at, *sheet_name(file.name), file.name)  # copy 10 comes after copy 2


def _is_late(file: File, due: float | None) -> bool:
    return file.marked_late or (due is not None and file.at > due)


def _of_one(file: File, sheet: Sheet | Unreadable, release: str | None) -> list[str]:
    if isinstance(sheet, Unreadable):
        return [f"{file.name} can't be read. {sheet.reason}"]
    remarks = [f"{file.name}: {remark}" for remark in sheet.remarks]
    says = (sheet.stamp or {}).get("release")
    if release and says and says != release:
        version = sheet.stamp.get("version", "unknown")
        remarks.append(f"{file.name} says it is of {says}, version {version}; this is {release}.")
    return remarks


def _of_many(name: str, winner: File, rivals: list[File], due: float | None) -> str:
    rule = ", the last in time" if _is_late(rivals[-1], due) and not _is_late(winner, due) else ""
    sheets = {sheet_name(file.name)[0] for file in rivals}
    if len(sheets) == 1:
        times = "twice" if len(rivals) == 2 else f"{len(rivals)} times"
        return f"{sheets.pop()} was handed in {times}: the one of {_moment(winner.at)} counts{rule}."
    return f"`{name}` is in {len(rivals)} notebooks: the one in {winner.name} of {_moment(winner.at)} counts{rule}."


def _of_late(file: File, due: float | None) -> str:
    if due is None or file.at <= due:
        return f"{file.name} is late: Canvas marked it so."
    return f"{file.name} is late: it was handed in at {_moment(file.at)} and due at {_moment(due)}."


def _moment(at: float) -> str:
    moment = datetime.fromtimestamp(at).astimezone()
    return f"{moment:%Y-%m-%d %H:%M} {timezone(moment.utcoffset())}"  # a worker elsewhere may have another zone
