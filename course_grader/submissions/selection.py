"""Select which of a student's notebooks counts: the last before the due time; without a due time, the last."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from course_lib.exercises import gradable
from course_lib.wording import listed

from .notebook import Notebook
from .student_names import original_and_copy


@dataclass(frozen=True, eq=False)
class SubmittedNotebook:
    """A submitted notebook that was read, or the reason why it could not be.

    Attributes:
        name: The name of the file.
        submitted_at: When it was submitted, in seconds since 1970.
        marked_late: Whether the school's platform marked it late.
        notebook: Its code, or None.
        reason: Why it could not be read, a sentence that begins with "It"; empty if it could.
    """

    name: str
    submitted_at: float
    marked_late: bool
    notebook: Notebook | None
    reason: str = ""

    def answers(self, exercise: str) -> bool:
        """Return whether it is meant to hold the answer to an exercise, and not only a helper of the same name."""
        released_exercises = self.notebook.released_exercises if self.notebook else ()
        return exercise in released_exercises or self.is_of(gradable()[exercise].lesson)

    def is_of(self, lesson: str) -> bool:
        """Return whether it is the notebook of a lesson: by its cells' metadata, without any by the file's name."""
        released_exercises = self.notebook.released_exercises if self.notebook else ()
        if released_exercises:
            return any(gradable()[name].lesson == lesson for name in released_exercises)
        return original_and_copy(self.name)[0].startswith(f"{lesson}_")


@dataclass(frozen=True)
class Selection:
    """The notebooks that count.

    Attributes:
        notebook_of: Exercise -> the notebook that counts; an exercise that is in no notebook has no entry.
        late: Exercise -> whether that notebook came late.
        remarks: Sentences for the student.
        submitted_at: When the last notebook that counts was submitted, in seconds since 1970; if none counts, when
            the last of all was.
    """

    notebook_of: dict[str, Notebook]
    late: dict[str, bool]
    remarks: tuple[str, ...]
    submitted_at: float | None


def select_notebooks(
    submitted: Sequence[SubmittedNotebook],
    names: Iterable[str],
    due: float | None = None,
    release: str | None = None,
    unwritten: Collection[tuple[str, Notebook]] = (),
) -> Selection:
    """Select the notebook that counts for each exercise.

    Of the notebooks that have the exercise, those count first in which a cell was made for it, or which belong to its
    lesson: elsewhere its name may be a helper's. Of these, the last that was submitted before the due time counts, or
    else the last of all; of two submitted at the same time, the one whose name sorts last. Whether an answer is right
    does not matter; but one that is not written never counts before one that is.

    Args:
        submitted, names: The notebooks of one student, and the names of the exercises.
        due: The due time in seconds since 1970. Without one, only what Canvas marked is late.
        release: The name of the release; a notebook with a different stamp gets a remark.
        unwritten: The (exercise, notebook) that were found to hold no answer yet.
    """
    blank = {(name, id(notebook)) for name, notebook in unwritten}
    ordered = sorted(submitted, key=_order)
    chosen: dict[str, SubmittedNotebook] = {}
    skipped: dict[tuple[SubmittedNotebook, SubmittedNotebook], list[str]] = {}
    remarks = [remark for file in ordered for remark in _reading_remarks(file, release)]
    for name in names:
        having = [file for file in ordered if file.notebook and name in file.notebook.exercises]
        answering = [file for file in having if file.answers(name)] or having
        written = [file for file in having if (name, id(file.notebook)) not in blank]
        candidates = [file for file in written if file in answering] or written or answering
        if not candidates:
            continue
        chosen[name], first = _last(candidates, due), _last(answering, due)
        if chosen[name] is not first:
            skipped.setdefault((first, chosen[name]), []).append(f"`{name}`")
        elif len(candidates) > 1:
            remarks.append(_repetition_remark(name, chosen[name], candidates, due))
    remarks += [
        f"{first.name} is not written yet in {listed(empty)}: what is in {used.name} from "
        f"{_local_time(used.submitted_at)} counts."
        for (first, used), empty in skipped.items()
    ]
    used = [file for file in ordered if file in chosen.values()]
    remarks += [_lateness_remark(file, due) for file in used if _is_late(file, due)]
    return Selection(
        {name: file.notebook for name, file in chosen.items() if file.notebook},
        {name: _is_late(file, due) for name, file in chosen.items()},
        tuple(dict.fromkeys(remarks)),  # the exercises of one notebook share their remarks
        max((each.submitted_at for each in used or submitted), default=None),
    )


def _last(candidates: Sequence[SubmittedNotebook], due: float | None) -> SubmittedNotebook:
    return ([file for file in candidates if not _is_late(file, due)] or candidates)[-1]


def _order(file: SubmittedNotebook) -> tuple[float, str, int, str]:
    return (file.submitted_at, *original_and_copy(file.name), file.name)  # copy 10 comes after copy 2


def _is_late(file: SubmittedNotebook, due: float | None) -> bool:
    return file.marked_late or (due is not None and file.submitted_at > due)


def _reading_remarks(file: SubmittedNotebook, release: str | None) -> list[str]:
    if file.notebook is None:
        return [f"{file.name} can't be read. {file.reason}"]
    remarks = [f"{file.name}: {remark}" for remark in file.notebook.remarks]
    claimed = file.notebook.stamp.get("release")
    if release and claimed and claimed != release:
        version = file.notebook.stamp.get("version", "unknown")
        remarks.append(f"{file.name} says that it belongs to {claimed}, version {version}; this is {release}.")
    return remarks


def _repetition_remark(
    name: str, winner: SubmittedNotebook, candidates: list[SubmittedNotebook], due: float | None
) -> str:
    rule = ", the last in time" if _is_late(candidates[-1], due) and not _is_late(winner, due) else ""
    originals = {original_and_copy(file.name)[0] for file in candidates}
    moment = _local_time(winner.submitted_at)
    if len(originals) == 1:
        times = "twice" if len(candidates) == 2 else f"{len(candidates)} times"
        which = winner.name if len({file.name for file in candidates}) == len(candidates) else "the one"
        if len({(file.name, file.submitted_at) for file in candidates}) < len(candidates):  # twice in one zip
            which, moment = "the last of them,", f"{moment},"
        return f"{originals.pop()} was handed in {times}: {which} from {moment} counts{rule}."
    return f"`{name}` is in {len(candidates)} notebooks: the one in {winner.name} from {moment} counts{rule}."


def _lateness_remark(file: SubmittedNotebook, due: float | None) -> str:
    if due is None or file.submitted_at <= due:
        return f"{file.name} is late: Canvas marked it so."
    moment = _local_time(file.submitted_at)
    return f"{file.name} is late: it was handed in at {moment} and due at {_local_time(due)}."


def _local_time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds).astimezone()
    # With its time zone, because a worker on another machine may have a different one.
    return f"{moment:%Y-%m-%d %H:%M} {timezone(moment.utcoffset() or timedelta())}"
