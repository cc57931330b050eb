"""Write the page on which a teacher looks through answers and decides on points: a file that needs no server."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from course_grader.manifest import Release
from course_grader.marks import STATES, Mark, StudentResult
from course_lib.exercises import PASSED

from .rendering import render, script
from .roster import shown_name

MOST_CARDS = 5000  # with more, a browser takes seconds: answers that passed are left out then


class Card(NamedTuple):
    """One answer of one student.

    Attributes:
        student: The student's name as decisions.csv has it, escaped and otherwise as it is.
        shown: The name for people.
        mark: The mark so far.
        code: What was handed in for the exercise, or "".
        known: What a good answer says, or the right one to a question of the student's own; or "".
        decided: The points that the teacher decided on earlier and the comment, escaped in the same way, or "".
    """

    student: Markup
    shown: str
    mark: Mark
    code: str
    known: str
    decided: tuple[Markup, ...]


def look_through(
    results: Sequence[StudentResult],
    release: Release,
    names: Mapping[str, str],
    codes: Mapping[tuple[str, str], str],
    known: Mapping[tuple[str, str], str],
    decided: Mapping[tuple[str, str], tuple[str, str]],
) -> str:
    """Return the page.

    Args:
        results, release: What was graded.
        names: Student -> the name for people.
        codes: (student, exercise) -> the code that was handed in.
        known: (student, exercise) -> a sentence on what a good answer says, or on the right one.
        decided: (student as in decisions.csv, exercise) -> points and comment so far.
    """
    cards = [
        Card(
            escape(name := shown_name(result.student)),
            names[result.student],
            mark,
            codes.get((result.student, mark.verdict.name), ""),
            known.get((result.student, mark.verdict.name), ""),
            tuple(map(escape, decided.get((name, mark.verdict.name), ("", "")))),
        )
        for result in results
        for mark in result.marks
    ]
    left_out = len(cards) > MOST_CARDS
    code = script("look_through.js")
    return render(
        "look_through.html.j2",
        release=release,
        cards=[card for card in cards if not left_out or card.mark.verdict.state != PASSED or card.decided[0]],
        left_out=left_out,
        states=[state for state in STATES if any(card.mark.verdict.state == state for card in cards)],
        sign_of=STATES,
        script=code,
        checksum=base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
    )
