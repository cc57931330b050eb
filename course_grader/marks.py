"""The result of one student for a release: a mark per exercise, remarks about what was submitted, a name for files."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from course_lib.exercises import NEEDS_REVIEW, SIGNS, Verdict

MISSING, UNREADABLE, IN_PART = "not handed in", "nothing readable", "passed in part"  # the last only by a teacher
STATES = SIGNS | {MISSING: "–", UNREADABLE: "!", IN_PART: "◐"}  # state -> its sign


@dataclass(frozen=True)
class Mark:
    """The mark of one student for one exercise.

    Attributes:
        verdict: Passed or not, and why, with the name and lesson of the exercise.
        title: The exercise's task in a few words.
        points: The points earned.
        possible: The points that the exercise gives.
        late: Whether it came late.
        caused_by: The wrong answers that it calls, if it passes with the course's own in their place.
    """

    verdict: Verdict
    title: str
    points: float
    possible: float
    late: bool = False
    caused_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class StudentResult:
    """One student's result for a release.

    Attributes:
        student: The name of the folder or file that was submitted.
        marks: One per exercise of the release, in its order.
        remarks: Sentences about what was submitted: late, submitted twice, a cell that was left out.
        submitted_at: When it was submitted, as ISO 8601; None if no notebook was.
        late: Whether what counts came after the due time.
        digest: A checksum of the files and the release, so that nothing is graded twice.
        flags: What else the teacher should look at, such as a file that can't be read, in a few words each.
        provisional: Whether grading itself failed: the next run tries again.
    """

    student: str
    marks: tuple[Mark, ...]
    remarks: tuple[str, ...] = ()
    submitted_at: str | None = None
    late: bool = False
    digest: str = ""
    flags: tuple[str, ...] = ()
    provisional: bool = False

    @property
    def points(self) -> float:
        """Return the points earned."""
        return sum(mark.points for mark in self.marks)

    @property
    def possible(self) -> float:
        """Return the points that the release gives."""
        return sum(mark.possible for mark in self.marks)

    @property
    def unreadable(self) -> bool:
        """Return whether nothing that was handed in could be read, and no points were decided on."""
        return {mark.verdict.state for mark in self.marks} == {UNREADABLE}

    @property
    def needs_review(self) -> list[str]:
        """Return the names of the exercises that the teacher has to review."""
        return [mark.verdict.name for mark in self.marks if mark.verdict.state == NEEDS_REVIEW]

    def as_dict(self) -> dict[str, Any]:
        """Return the result as plain data, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StudentResult:
        """Restore a result from the result of `as_dict`, before or after JSON."""
        marks = []
        for mark in data["marks"]:
            verdict = Verdict(**{**mark["verdict"], "evidence": tuple(mark["verdict"]["evidence"])})
            marks.append(Mark(**{**mark, "verdict": verdict, "caused_by": tuple(mark["caused_by"])}))
        texts = {key: tuple(data[key]) for key in ("remarks", "flags")}
        return cls(**{**data, "marks": tuple(marks), **texts})


def file_stem(student: str) -> str:
    """Name the files of one student: readable, safe on every system, and different for every student.

    Returns:
        The ASCII letters and digits of the name, and 16 hexadecimal digits of a checksum of all of it: with fewer, a
        student could find a name whose files replace another student's.

    Example:
        >>> file_stem("Doe, Jane")
        'doe-jane-17a6fb0c3906628f'
    """
    name = unicodedata.normalize("NFC", student)
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_name)[:40].strip("-") or "student"
    return f"{slug}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
