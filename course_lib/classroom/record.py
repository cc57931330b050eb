"""What a teacher keeps of a release: which exercises it had, with how many points, and of which version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from course_lib.exercises.catalogue import EXERCISES

FILE = "release.json"


@dataclass(frozen=True)
class Asked:
    """One exercise of a release, with its points."""

    name: str
    lesson: str
    title: str
    points: float


@dataclass(frozen=True)
class Record:
    """A release.

    Attributes:
        release: its name, such as "week1".
        version, commit: of the course that it was made from.
        exercises: in the order of the lessons.
        sha256: file -> checksum of the sheet that was handed out.
    """

    release: str
    version: str
    commit: str
    exercises: tuple[Asked, ...]
    sha256: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for a file or a worker elsewhere."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Record:
        """From what `as_dict` gave, before or after JSON."""
        return cls(**{**data, "exercises": tuple(Asked(**one) for one in data["exercises"])})


def asked(lessons: Iterable[str]) -> tuple[Asked, ...]:
    """The exercises of some lessons; each gives as many points as it is difficult, as in the sheets' own metadata."""
    mine = [one for one in EXERCISES.values() if one.lesson in set(lessons)]
    return tuple(Asked(one.name, one.lesson, one.title, one.difficulty) for one in mine)


def find_record(week: str, submissions: Path) -> Path:
    """Find the record of a release.

    Args:
        week: the name of the release, or its folder, or the path of its release.json.
        submissions: the folder of what was handed in; beside it and above it a folder of that name is looked for.

    Raises:
        ValueError: there is none; the sentence says where it was looked for.
    """
    given = Path(week)
    around = [given, *(folder / week for folder in (submissions.resolve().parent, *submissions.resolve().parents[1:3]))]
    for place in around:
        for path in (place, place / FILE):
            if path.name == FILE and path.is_file():
                return path
    raise ValueError(
        f"week is {week!r}, and there is no {given / FILE}, nor one in a folder {given.name} beside {submissions}: "
        "give the folder that `course release` made."
    )


def read_record(path: Path) -> Record:
    """Read a release.json.

    Raises:
        ValueError: it is no record of a release, or has exercises that this version of the course doesn't know.
    """
    try:
        record = Record.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is no record of a release ({type(error).__name__}): make it with `course release`."
        ) from None
    unknown = [one.name for one in record.exercises if one.name not in EXERCISES]
    if unknown or not record.exercises:
        what = f"has an exercise {unknown[0]!r} that this version of the course doesn't know" if unknown else "is empty"
        raise ValueError(f"{path} {what}: grade with version {record.version} of the course.")
    return record
