"""Write the page that a teacher reads before the next lesson: how the class did, and which mistakes to discuss."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import correlation, mean, median
from typing import NamedTuple

from markupsafe import Markup

from course_grader.manifest import Release, ReleasedExercise
from course_grader.marks import IN_PART, MISSING, STATES, UNREADABLE, Mark, StudentResult
from course_grader.submissions import Guesses
from course_lib.exercises import EXERCISES, NOT_PASSED
from course_lib.mistakes import CATALOGUE, Mistake
from course_lib.pictures import count_chart

from .feedback import page_path
from .guess_counts import count_guesses
from .rendering import render

FEW = 30  # students, below whom a share and a correlation say little
MAX_CONCERNS = 12
MAX_BARS = 15  # mistakes in the picture; the table below it lists all of them
MAX_MESSAGES, MAX_LINKS = 100, 10  # wrong answers without a name that are listed, and students beside each
RARE = {IN_PART, UNREADABLE}  # states with a column only if there are any
_NUMBER = re.compile(r"-?\d[\d.,e+-]*")


class MistakeCount(NamedTuple):
    """A mistake of the catalogue, the number of students who made it, and the exercises in which they did."""

    entry: Mistake
    students: int
    exercises: tuple[str, ...]


class UnnamedMistake(NamedTuple):
    """Wrong answers without a name to one exercise, with the same message apart from numbers, and who made them."""

    exercise: str
    message: str
    students: tuple[str, ...]


class ExerciseCount(NamedTuple):
    """How a class did in one exercise.

    Attributes:
        exercise: The exercise.
        states: The number of students per state.
        unnamed: That of wrong answers without a name.
        caused_by: That of those by the helper to blame.
        solved: The share of those who handed in that passed it; None in a class of fewer than `FEW`.
        separates: The correlation of passing it with the points for the others, from -1 to 1; None also if all passed
            or nobody did.
    """

    exercise: ReleasedExercise
    states: Mapping[str, int]
    unnamed: int
    caused_by: Mapping[str, int]
    solved: float | None
    separates: float | None


class Concern(NamedTuple):
    """Something to explain, named or not: what it is, where the page says more of it, and whom it concerns."""

    text: str
    anchor: str
    students: int


def class_report(
    results: Sequence[StudentResult],
    release: Release,
    names: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    guesses: Sequence[Guesses] = (),
) -> str:
    """Return the HTML page that a teacher reads before the next lesson, with links to all feedback pages.

    It shows students under these names instead of their submissions', the notes on the class as a whole, and, without
    any name, the guesses that students share.
    """
    names = names or {}
    exercises = _count_exercises(results, release)
    unnamed = unnamed_mistakes(results, release)
    mistakes = count_mistakes(results, release)
    points = [result.points for result in results if not result.unreadable]
    return render(
        "class_report.html.j2",
        results=results,
        release=release,
        late=sum(result.late for result in results),
        handed_in=len(points),
        mean=mean(points or [0]),
        median=median(points or [0]),
        possible=sum(exercise.points for exercise in release.exercises),
        to_review=sum(bool(result.needs_review or result.flags) for result in results),
        states=[state for state in STATES if state not in RARE or any(count.states[state] for count in exercises)],
        notes=notes,
        exercises=exercises,
        unnamed=unnamed[:MAX_MESSAGES],
        more_unnamed=len(unnamed[MAX_MESSAGES:]),
        max_links=MAX_LINKS,
        mistakes=mistakes,
        guesses=[*count_guesses(guesses, release)],
        concerns=concerns(mistakes, [one for one in unnamed if one.exercise in EXERCISES]),
        picture=_picture(mistakes, len(points)),
        students=sorted(results, key=lambda result: names.get(result.student, result.student).casefold()),
        name_of=lambda student: names.get(student, student),
        page_path=page_path,
    )


def count_mistakes(results: Sequence[StudentResult], release: Release) -> list[MistakeCount]:
    """Count the students who made each mistake of the catalogue; the most frequent mistake comes first."""
    students: Counter[str] = Counter()
    exercises: dict[str, set[str]] = {}
    for result in results:
        occurrences = {(mistake, mark.verdict.name) for mark in result.marks if (mistake := _known_mistake(mark))}
        students.update({mistake for mistake, _ in occurrences})  # each student once
        for mistake, exercise in occurrences:
            exercises.setdefault(mistake, set()).add(exercise)
    names = [exercise.name for exercise in release.exercises]
    return [
        MistakeCount(CATALOGUE[id_], students[id_], tuple(name for name in names if name in exercises[id_]))
        for id_ in sorted(students, key=lambda mistake: (-students[mistake], mistake))
    ]


def unnamed_mistakes(results: Sequence[StudentResult], release: Release) -> list[UnnamedMistake]:
    """Group the wrong answers without a name by exercise and message; the largest group of an exercise comes first."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for result in results:
        for mark in filter(_is_unnamed, result.marks):
            key = mark.verdict.name, _NUMBER.sub("#", mark.verdict.message)
            groups.setdefault(key, []).append((result.student, mark.verdict.message))
    order = [exercise.name for exercise in release.exercises]
    unnamed = [
        UnnamedMistake(exercise, examples[0][1], tuple(student for student, _ in examples))
        for (exercise, _), examples in groups.items()
    ]
    return sorted(unnamed, key=lambda mistake: (order.index(mistake.exercise), -len(mistake.students)))


def _known_mistake(mark: Mark) -> str | None:
    """Return the mistake of a wrong answer if the catalogue contains it, and the answer made it by itself."""
    mistake = mark.verdict.mistake
    return mistake if _is_wrong(mark) and mistake in CATALOGUE else None


def _is_unnamed(mark: Mark) -> bool:
    return _is_wrong(mark) and not _known_mistake(mark)


def _is_wrong(mark: Mark) -> bool:
    return mark.verdict.state in (NOT_PASSED, IN_PART) and not mark.caused_by


def _count_exercises(results: Sequence[StudentResult], release: Release) -> list[ExerciseCount]:
    counts = []
    for exercise in release.exercises:
        marks = [mark for result in results for mark in result.marks if mark.verdict.name == exercise.name]
        states = Counter(mark.verdict.state for mark in marks)
        caused_by = Counter(cause for mark in marks for cause in mark.caused_by)
        counts.append(
            ExerciseCount(exercise, states, sum(map(_is_unnamed, marks)), caused_by, *_item(results, exercise))
        )
    return counts


def _item(results: Sequence[StudentResult], exercise: ReleasedExercise) -> tuple[float | None, float | None]:
    """Return how many solved an exercise, and how well it separates who has many points elsewhere from who has few."""
    pairs = [
        (float(mark.verdict.passed), result.points - mark.points)
        for result in results
        for mark in result.marks
        if mark.verdict.name == exercise.name and mark.verdict.state not in (MISSING, UNREADABLE)
    ]
    if len(pairs) < FEW:
        return None, None
    passed, others = zip(*pairs, strict=True)
    varies = len(set(passed)) > 1 and len(set(others)) > 1
    return mean(passed), correlation(passed, others) if varies else None


def concerns(mistakes: Sequence[MistakeCount], unnamed: Sequence[UnnamedMistake]) -> list[Concern]:
    """List what to explain, with a name or without, beginning with what concerns the most students."""
    found = [Concern(seen.entry.title, seen.entry.id, seen.students) for seen in mistakes]
    found += [Concern(f"`{one.exercise}`: {one.message}", "unnamed", len(one.students)) for one in unnamed]
    return sorted(found, key=lambda concern: -concern.students)[:MAX_CONCERNS]


def _picture(mistakes: Sequence[MistakeCount], submitted: int) -> Markup:
    if not mistakes:
        return Markup()
    cut = f" The {MAX_BARS} most frequent of {len(mistakes)}; the table has all." if len(mistakes) > MAX_BARS else ""
    picture = count_chart(
        {f"{mistake.entry.id} (lesson {mistake.entry.lesson})": mistake.students for mistake in mistakes[:MAX_BARS]},
        title="Which mistakes, how often",
        noun="student",
        note=f"Of {submitted} who handed in, the number who made each mistake.{cut}",
    )
    return Markup(picture._repr_html_())
