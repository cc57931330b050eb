"""Write the feedback page of one student: what is right, what is wrong, and what to read next."""

from __future__ import annotations

from course_grader.manifest import Release
from course_grader.marks import IN_PART, MISSING, STATES, UNREADABLE, StudentResult, file_stem
from course_lib.exercises import NEEDS_REVIEW, NOT_PASSED, NOT_WRITTEN, PASSED
from course_lib.mistakes import CATALOGUE

from .rendering import render

# State -> class of the style sheet.
STYLES = {PASSED: "good", NOT_PASSED: "bad", NOT_WRITTEN: "open", NEEDS_REVIEW: "look"}
STYLES |= {MISSING: "open", UNREADABLE: "look", IN_PART: "look"}
FEEDBACK_FOLDER = "feedback"  # holds the pages, next to the teacher's report


def feedback_page(result: StudentResult, release: Release, name: str = "") -> str:
    """Return the HTML page that a student gets as feedback; the name is that of the submission if none is given.

    It is self-contained: it loads no other file. Whatever came from the student is escaped, and characters that would
    hide or reorder text are made visible.
    """
    return render(
        "feedback.html.j2",
        result=result,
        name=name or result.student,
        release=release,
        catalogue=CATALOGUE,
        style_of=STYLES,
        sign_of=STATES,
        needs_review=NEEDS_REVIEW,
        passed=PASSED,
        not_passed_yet=NOT_PASSED,
    )


def page_path(student: str) -> str:
    """Return the path of a student's page, relative to the folder of the reports."""
    return f"{FEEDBACK_FOLDER}/{file_stem(student)}.html"
