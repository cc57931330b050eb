"""What one student gets back: a page of their own, with what is right, what is wrong, and where to read on."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from course_lib.classroom.marks import Graded
from course_lib.classroom.papers.page import render
from course_lib.classroom.record import Record
from course_lib.diagnosis import CATALOGUE
from course_lib.exercises.verdict import LOOK, NOT_PASSED, NOT_WRITTEN, PASSED, SIGNS

LOOKS = {PASSED: "good", NOT_PASSED: "bad", NOT_WRITTEN: "open", LOOK: "look"}
FOLDER = "feedback"  # of the pages, beside the teacher's report

_PAGE = """{% extends "page" %}
{% macro state(verdict) %}
<span class="state {{ looks[verdict.state] }}"><span aria-hidden="true">{{ signs[verdict.state] }}</span> {{ verdict.state }}</span>
{%- endmacro %}
{% macro points(mark) %}{{ mark.points | number }} of {{ mark.possible | number }}{% endmacro %}
{% block title %}{{ record.release }}: feedback for {{ graded.student }}{% endblock %}
{% block main %}
<h1>Feedback on {{ record.release }} for <bdi>{{ graded.student }}</bdi></h1>
<p class="total">{{ graded.points | number }} of {{ graded.possible | number }} points</p>
<dl>
<dt>Handed in</dt><dd>{{ graded.handed_in | moment if graded.handed_in else "at a time that could not be told" }}</dd>
<dt>In time</dt><dd>{{ "no, it came late" if graded.late else "yes" }}</dd>
<dt>Exercises of</dt><dd>{{ record.release }}, version {{ record.version }}</dd>
</dl>
{% if graded.remarks %}
<h2>What was handed in</h2>
<ul>
{% for remark in graded.remarks %}
<li>{{ remark | rich }}</li>
{% endfor %}
</ul>
{% endif %}
<h2>Overview</h2>
<table>
<caption>Each exercise with its result; the name leads to the details.</caption>
<thead><tr><th scope="col">Exercise</th><th scope="col">Result</th><th scope="col" class="number">Points</th></tr></thead>
<tbody>
{% for mark in graded.marks %}
<tr><th scope="row"><a href="#exercise-{{ loop.index }}">{{ mark.title }}</a></th><td>{{ state(mark.verdict) }}</td><td class="number">{{ points(mark) }}</td></tr>
{% endfor %}
</tbody>
</table>
{% for mark in graded.marks %}
{% set verdict = mark.verdict %}
<section class="exercise" id="exercise-{{ loop.index }}" aria-labelledby="title-{{ loop.index }}">
<h2 id="title-{{ loop.index }}">{{ mark.title }}: <code>{{ verdict.name }}</code></h2>
<p>{{ state(verdict) }}, {{ points(mark) }} points.</p>
<p>{{ verdict.says | rich }}</p>
{% if verdict.state == look %}
<p><strong>Your teacher will look at it.</strong> The points can still change.</p>
{% endif %}
{% if verdict.evidence %}
<ul>
{% for sentence in verdict.evidence %}
<li>{{ sentence | rich }}</li>
{% endfor %}
</ul>
{% endif %}
{% set mistake = catalogue.get(verdict.mistake) %}
{% set again = verdict.lesson if verdict.state not in (passed, look) else none %}
{% if verdict.mistake or verdict.where or verdict.hint or again %}
<dl>
{% if verdict.mistake %}
<dt>This mistake is called</dt><dd><code>{{ verdict.mistake }}</code>{% if mistake %}: {{ mistake.title | rich }}{% endif %}</dd>
{% endif %}
{% if verdict.where %}
<dt>Line</dt><dd>{{ verdict.where | place }}</dd>
{% endif %}
{% if verdict.hint %}
<dt>Ask yourself</dt><dd>{{ verdict.hint | rich }}</dd>
{% endif %}
{% if again %}
<dt>Read again</dt><dd>lesson {{ again }}</dd>
{% endif %}
</dl>
{% endif %}
</section>
{% endfor %}
{% endblock %}
"""  # noqa: E501


def feedback_page(graded: Graded, record: Record) -> str:
    """Write the page that a student gets back.

    It needs no other file and asks for none. Whatever came from the student is escaped, and what would hide or turn
    text is written out.

    Args:
        graded: the student's week.
        record: the release it belongs to.

    Returns:
        A whole HTML document.
    """
    return render(
        _PAGE,
        graded=graded,
        record=record,
        catalogue=CATALOGUE,
        looks=LOOKS,
        signs=SIGNS,
        look=LOOK,
        passed=PASSED,
    )


def looked_at(graded: Graded) -> list[str]:
    """The names of the exercises that wait for the teacher."""
    return [mark.verdict.name for mark in graded.marks if mark.verdict.state == LOOK]


def page_name(student: str) -> str:
    """Name the file of a student's page: readable, safe on every system, and each student's own.

    Args:
        student: the name of what was handed in, whatever it holds.

    Returns:
        The ASCII letters and digits of the name, and 16 digits of a checksum of the whole of it: fewer would let a
        student find a name whose page replaces another one's.

    Example:
        >>> page_name("Doe, Jane")
        'doe-jane-17a6fb0c3906628f.html'
    """
    name = unicodedata.normalize("NFC", student)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:40].strip("-") or "student"
    return f"{slug}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.html"
