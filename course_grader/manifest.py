"""The record that a teacher keeps of a release: its exercises with their points, and the version of the course."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from course_lib.about import version

from .marks import file_stem

MANIFEST = "release.json"


@dataclass(frozen=True)
class ReleasedExercise:
    """One exercise of a release, with its points."""

    name: str
    lesson: str
    title: str
    points: float


@dataclass(frozen=True)
class Sheet:
    """One student's own sheet of an individual release.

    Attributes:
        student: The student's name.
        number: What its questions are drawn from.
        names: All names of the student in the roster, in a form that can be compared.
    """

    student: str
    number: int
    names: list[str]

    @property
    def folder(self) -> str:
        """The name of the folder with the sheet's notebooks: the student's name and the number."""
        return f"{file_stem(self.student).rpartition('-')[0]}-{self.number:09}"


@dataclass(frozen=True)
class Release:
    """A release.

    Attributes:
        name: Such as "week1".
        version, commit: Of the course that it was made from.
        exercises: In the order of the lessons.
        sha256: File -> checksum of the notebook that was handed out.
        is_individual: Whether each student got a sheet of their own.
        sheets: Those sheets, as only the teacher's own record holds them.
    """

    name: str
    version: str
    commit: str
    exercises: tuple[ReleasedExercise, ...]
    sha256: dict[str, str] = field(default_factory=dict)
    is_individual: bool = False
    sheets: tuple[Sheet, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the release as plain data, for a file or a worker elsewhere."""
        data = asdict(self)
        return {"release": data.pop("name"), **data}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Release:
        """Restore a release from the result of `as_dict`, before or after JSON."""
        rest = {key: value for key, value in data.items() if key != "release"}
        exercises = tuple(ReleasedExercise(**exercise) for exercise in data["exercises"])
        sheets = tuple(Sheet(**sheet) for sheet in data.get("sheets", ()))
        return cls(data["release"], **{**rest, "exercises": exercises, "sheets": sheets})


def released_exercises(
    lessons: Iterable[str], *, individual: bool = False, explain: bool = False
) -> tuple[ReleasedExercise, ...]:
    """List the exercises of some lessons; each gives as many points as its difficulty, as in the notebooks.

    Individual ones are those that each student's own sheet has beside them; `explain` adds the questions in words.
    """
    from course_lib.exercises import EXERCISES, gradable, written_exercises

    chosen, written = set(lessons), written_exercises()
    exercises = [
        each
        for name, each in gradable().items()
        if each.lesson in chosen and (name in EXERCISES or (explain if name in written else individual))
    ]
    return tuple(ReleasedExercise(each.name, each.lesson, each.title, each.difficulty) for each in exercises)


def find_manifest(release: str, submissions: Path) -> Path:
    """Find the manifest of a release.

    Args:
        release: The name of the release, or its folder, or the path of its release.json.
        submissions: The folder of submissions; a folder named after the release is searched beside it and above it.

    Raises:
        ValueError: There is no manifest; the message says where it was searched for.
    """
    named = Path(release)
    for candidate in [named, *(folder / release for folder in submissions.resolve().parents[:3])]:
        for path in (candidate, candidate / MANIFEST):
            if path.name == MANIFEST and path.is_file():
                return path
    raise ValueError(
        f"week is {release!r}, and there is no {named / MANIFEST}, nor one in a folder {named.name} beside "
        f"{submissions}: give the folder that `course release` made."
    )


def read_manifest(path: Path) -> Release:
    """Read a release.json.

    Raises:
        ValueError: It is not a release's manifest, or names exercises that this version of the course does not have.
    """
    try:
        release = Release.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        reason = f"can't be read ({error})" if isinstance(error, OSError | ValueError) else "lacks what a release has"
        raise ValueError(f"{path} {reason}: make it with `course release`, and change points or exercises.") from None
    if not release.exercises:
        raise ValueError(f"{path} has no exercises: make it with `course release`.")
    counts = Counter(exercise.name for exercise in release.exercises)
    for exercise in release.exercises:
        if problem := _problem(exercise, counts[exercise.name], release.version):
            raise ValueError(f"{path} has the exercise {exercise.name!r} {problem}.")
    return release


def _problem(exercise: ReleasedExercise, count: int, release_version: str) -> str | None:
    from course_lib.exercises import gradable

    points = exercise.points
    if count > 1:
        return f"{count} times: remove all but one"
    if exercise.name not in gradable():
        other = f", or grade with version {release_version} of the course" if release_version != version() else ""
        return f"that version {version()} of the course doesn't know: correct its name, remove it{other}"
    if not isinstance(points, int | float) or isinstance(points, bool) or not 0 <= points < math.inf:
        return f"with points {points!r}: give a number from 0 up, without quotes"
    return None
