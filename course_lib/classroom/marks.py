"""What one student gets for one week: a mark an exercise, and what is to be said of what was handed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from course_lib.exercises.verdict import Verdict


@dataclass(frozen=True)
class Mark:
    """One exercise of one student.

    Attributes:
        verdict: passed or not, and why, with the name and lesson of the exercise.
        title: what was to be done, in a few words.
        points: earned.
        possible: points that the exercise gives.
    """

    verdict: Verdict
    title: str
    points: float
    possible: float


@dataclass(frozen=True)
class Graded:
    """One student's week.

    Attributes:
        student: name of the folder or file that was handed in.
        marks: one for each exercise of the release, in its order.
        remarks: about what was handed in, a sentence each: late, handed in twice, a cell that was left out.
        handed_in: when, as ISO 8601, or None where nothing could be told.
        late: whether what counts came after the due time.
        digest: of the files and of the release, so that nothing is graded twice.
        seconds: that grading took.
    """

    student: str
    marks: tuple[Mark, ...]
    remarks: tuple[str, ...] = ()
    handed_in: str | None = None
    late: bool = False
    digest: str = ""
    seconds: float = 0.0

    @property
    def points(self) -> float:
        """The points that were earned."""
        return sum(mark.points for mark in self.marks)

    @property
    def possible(self) -> float:
        """The points that the week gives."""
        return sum(mark.possible for mark in self.marks)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for a file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Graded:
        """From what `as_dict` gave, before or after JSON."""
        marks = tuple(
            Mark(**{**mark, "verdict": Verdict(**{**mark["verdict"], "evidence": tuple(mark["verdict"]["evidence"])})})
            for mark in data["marks"]
        )
        return cls(**{**data, "marks": marks, "remarks": tuple(data["remarks"])})
