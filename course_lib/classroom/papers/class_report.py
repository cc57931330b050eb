"""What a teacher reads before the next lesson: how the class did, and which mistakes to talk about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median

from markupsafe import Markup

from course_lib.classroom.marks import Graded, Mark
from course_lib.classroom.papers.feedback import FOLDER, looked_at, page_name
from course_lib.classroom.papers.page import render
from course_lib.classroom.record import Asked, Record
from course_lib.diagnosis import CATALOGUE, Mistake
from course_lib.exercises.verdict import LOOK, NOT_PASSED, NOT_WRITTEN, PASSED
from course_lib.pictures import counts

STATES = (PASSED, NOT_PASSED, NOT_WRITTEN, LOOK)
MOST_BARS = 15  # that still are a picture; the table below it has them all

_PAGE = """{% extends "page" %}
{% block title %}{{ record.release }}: class report{% endblock %}
{% block main %}
<h1>{{ record.release }}: how the class did</h1>
{% if not graded %}
<p>Nobody handed in anything.</p>
{% else %}
<dl>
<dt>Handed in</dt><dd>{{ graded | length }}</dd>
<dt>Late</dt><dd>{{ late }}</dd>
<dt>Mean</dt><dd>{{ mean | number }} of {{ possible | number }} points</dd>
<dt>Median</dt><dd>{{ median | number }} of {{ possible | number }} points</dd>
<dt>For you to look at</dt><dd>{{ to_look_at }}</dd>
</dl>
<h2>Exercises</h2>
<div class="scrolls" tabindex="0" role="region" aria-label="Table of the exercises">
<table>
<caption>How many students are where in each exercise. The last column counts wrong answers whose mistake has no name.</caption>
<thead><tr><th scope="col">Exercise</th><th scope="col">Lesson</th>
{% for state in states %}<th scope="col" class="number">{{ state | capitalize }}</th>{% endfor %}
<th scope="col" class="number">Other mistakes</th></tr></thead>
<tbody>
{% for exercise, counts, other in exercises %}
<tr><th scope="row">{{ exercise.title }} (<code>{{ exercise.name }}</code>)</th><td>{{ exercise.lesson }}</td>
{% for state in states %}<td class="number">{{ counts[state] }}</td>{% endfor %}
<td class="number">{{ other }}</td></tr>
{% endfor %}
</tbody>
</table>
</div>
<h2>Which mistakes, how often</h2>
{% if not mistakes %}
<p>No answer has a mistake with a name.</p>
{% else %}
<div class="scrolls" tabindex="0" role="region" aria-label="Picture of the mistakes">{{ picture }}</div>
<div class="scrolls" tabindex="0" role="region" aria-label="Table of the mistakes">
<table>
<caption>The same in a table: the students who made a mistake, in whichever exercise.</caption>
<thead><tr><th scope="col">Mistake</th><th scope="col" class="number">Students</th><th scope="col">Exercises</th></tr></thead>
<tbody>
{% for seen in mistakes %}
<tr><th scope="row"><a href="#{{ seen.entry.id }}">{{ seen.entry.id }}</a></th><td class="number">{{ seen.students }}</td>
<td>{{ seen.exercises | join(", ") }}</td></tr>
{% endfor %}
</tbody>
</table>
</div>
<h2>What to explain</h2>
{% for seen in mistakes %}
<section class="exercise" id="{{ seen.entry.id }}" aria-labelledby="about-{{ seen.entry.id }}">
<h3 id="about-{{ seen.entry.id }}">{{ seen.entry.title | rich }}</h3>
<p>{{ seen.entry.explanation | rich }}</p>
<dl>
<dt>Ask the class</dt><dd>{{ seen.entry.hint | rich }}</dd>
<dt>Go back to</dt><dd>lesson {{ seen.entry.lesson }}</dd>
<dt>Made by</dt><dd>{{ seen.students }} of {{ graded | length }}, in {{ seen.exercises | join(", ") }}</dd>
</dl>
</section>
{% endfor %}
{% endif %}
<h2>Students</h2>
<div class="scrolls" tabindex="0" role="region" aria-label="Table of the students">
<table>
<caption>Each name leads to the page that the student gets.</caption>
<thead><tr><th scope="col">Student</th><th scope="col" class="number">Points</th><th scope="col">Late</th><th scope="col">To look at</th></tr></thead>
<tbody>
{% for one in students %}
<tr><th scope="row"><a href="{{ folder }}/{{ page_name(one.student) }}"><bdi>{{ one.student }}</bdi></a></th>
<td class="number">{{ one.points | number }}</td><td>{{ "late" if one.late else "no" }}</td>
<td>{{ looked_at(one) | join(", ") or "nothing" }}</td></tr>
{% endfor %}
</tbody>
</table>
</div>
{% endif %}
{% endblock %}
"""  # noqa: E501


@dataclass(frozen=True)
class Seen:
    """A mistake that the class made.

    Attributes:
        entry: of the catalogue.
        students: who made it, in one exercise or in several.
        exercises: names of those it was made in.
    """

    entry: Mistake
    students: int
    exercises: tuple[str, ...]


def class_report(graded: Sequence[Graded], record: Record) -> str:
    """Write the page that a teacher reads before the next lesson.

    The feedback pages are expected in a folder "feedback" beside it, under the names that `page_name` gives.

    Args:
        graded: everybody who handed in.
        record: the release.

    Returns:
        A whole HTML document.
    """
    mistakes = mistakes_seen(graded, record)
    return render(
        _PAGE,
        graded=graded,
        record=record,
        late=sum(one.late for one in graded),
        mean=mean(one.points for one in graded) if graded else 0,
        median=median(one.points for one in graded) if graded else 0,
        possible=sum(exercise.points for exercise in record.exercises),
        to_look_at=sum(bool(looked_at(one)) for one in graded),
        states=STATES,
        exercises=_counted(graded, record),
        mistakes=mistakes,
        picture=_picture(mistakes, len(graded)),
        students=sorted(graded, key=lambda one: one.student.casefold()),
        looked_at=looked_at,
        page_name=page_name,
        folder=FOLDER,
    )


def mistakes_seen(graded: Sequence[Graded], record: Record) -> list[Seen]:
    """Count for each mistake of the catalogue the students who made it; the most frequent comes first."""
    order = [exercise.name for exercise in record.exercises]
    students: Counter[str] = Counter()
    exercises: dict[str, set[str]] = {}
    for one in graded:
        made = {(mark.verdict.mistake, mark.verdict.name) for mark in one.marks if _named(mark)}
        students.update({mistake for mistake, _ in made})  # each student once
        for mistake, exercise in made:
            exercises.setdefault(mistake, set()).add(exercise)
    ranked = sorted(students, key=lambda mistake: (-students[mistake], mistake))
    return [
        Seen(CATALOGUE[one], students[one], tuple(name for name in order if name in exercises[one])) for one in ranked
    ]


def _named(mark: Mark) -> bool:
    return mark.verdict.state == NOT_PASSED and mark.verdict.mistake in CATALOGUE


def _counted(graded: Sequence[Graded], record: Record) -> list[tuple[Asked, dict[str, int], int]]:
    """Each exercise with how many students are in each state, and how many made a mistake without a name."""
    marks = [mark for one in graded for mark in one.marks]
    states = Counter((mark.verdict.name, mark.verdict.state) for mark in marks)
    other = Counter(mark.verdict.name for mark in marks if mark.verdict.state == NOT_PASSED and not _named(mark))
    return [(one, {state: states[one.name, state] for state in STATES}, other[one.name]) for one in record.exercises]


def _picture(mistakes: Sequence[Seen], handed_in: int) -> Markup:
    if not mistakes:
        return Markup()
    cut = f" The {MOST_BARS} most frequent of {len(mistakes)}; the table has all." if len(mistakes) > MOST_BARS else ""
    drawn = counts(
        {f"{seen.entry.id} (lesson {seen.entry.lesson})": seen.students for seen in mistakes[:MOST_BARS]},
        title="Which mistakes, how often",
        unit="students",
        note=f"Of {handed_in} who handed in, the number who made each mistake.{cut}",
    )
    return Markup(drawn._repr_html_())
