"""Write the page that a teacher reads before the next lesson: how the class did, and which mistakes to discuss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from markupsafe import Markup

from course_grader.manifest import Release, ReleasedExercise
from course_grader.marks import Mark, StudentResult
from course_lib.diagnosis import CATALOGUE, Mistake
from course_lib.exercises import NOT_PASSED, SIGNS
from course_lib.pictures import count_chart

from .feedback import page_path
from .rendering import render

MAX_BARS = 15  # mistakes in the picture; the table below it lists all of them


@dataclass(frozen=True)
class MistakeCount:
    """A mistake that students of the class made.

    Attributes:
        entry: Its entry in the catalogue.
        students: The number of students who made it, in one exercise or in several.
        exercises: The names of the exercises in which it was made.
    """

    entry: Mistake
    students: int
    exercises: tuple[str, ...]


def class_report(results: Sequence[StudentResult], release: Release) -> str:
    """Return the HTML page that a teacher reads before the next lesson, with links to all feedback pages."""
    mistakes = count_mistakes(results, release)
    return render(
        "class_report.html.j2",
        results=results,
        release=release,
        late=sum(result.late for result in results),
        mean=mean(result.points for result in results) if results else 0,
        median=median(result.points for result in results) if results else 0,
        possible=sum(exercise.points for exercise in release.exercises),
        to_review=sum(bool(result.needs_review or result.flags) for result in results),
        states=tuple(SIGNS),
        exercises=_count_states(results, release),
        mistakes=mistakes,
        picture=_picture(mistakes, len(results)),
        students=sorted(results, key=lambda result: result.student.casefold()),
        page_path=page_path,
    )


def count_mistakes(results: Sequence[StudentResult], release: Release) -> list[MistakeCount]:
    """Count the students who made each mistake of the catalogue; the most frequent mistake comes first."""
    students: Counter[str] = Counter()
    exercises: dict[str, set[str]] = {}
    for result in results:
        made = {(mistake, mark.verdict.name) for mark in result.marks if (mistake := _known_mistake(mark))}
        students.update({mistake for mistake, _ in made})  # each student once
        for mistake, exercise in made:
            exercises.setdefault(mistake, set()).add(exercise)
    names = [exercise.name for exercise in release.exercises]
    return [
        MistakeCount(CATALOGUE[one], students[one], tuple(name for name in names if name in exercises[one]))
        for one in sorted(students, key=lambda mistake: (-students[mistake], mistake))
    ]


def _known_mistake(mark: Mark) -> str | None:
    """Return the mistake of a wrong answer if the catalogue contains it."""
    mistake = mark.verdict.mistake
    return mistake if mark.verdict.state == NOT_PASSED and mistake in CATALOGUE else None


def _count_states(
    results: Sequence[StudentResult], release: Release
) -> list[tuple[ReleasedExercise, dict[str, int], int]]:
    """Count the students per state of each exercise, and those whose mistake has no name."""
    marks = [mark for result in results for mark in result.marks]
    states = Counter((mark.verdict.name, mark.verdict.state) for mark in marks)
    unnamed = Counter(
        mark.verdict.name for mark in marks if mark.verdict.state == NOT_PASSED and not _known_mistake(mark)
    )
    return [
        (exercise, {state: states[exercise.name, state] for state in SIGNS}, unnamed[exercise.name])
        for exercise in release.exercises
    ]


def _picture(mistakes: Sequence[MistakeCount], submitted: int) -> Markup:
    if not mistakes:
        return Markup()
    cut = f" The {MAX_BARS} most frequent of {len(mistakes)}; the table has all." if len(mistakes) > MAX_BARS else ""
    picture = count_chart(
        {f"{one.entry.id} (lesson {one.entry.lesson})": one.students for one in mistakes[:MAX_BARS]},
        title="Which mistakes, how often",
        noun="student",
        note=f"Of {submitted} who handed in, the number who made each mistake.{cut}",
    )
    return Markup(picture._repr_html_())
