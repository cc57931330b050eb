"""Write the feedback page of one student: what is right, what is wrong, and what to read next."""

from __future__ import annotations

from course_grader.manifest import Release
from course_grader.marks import StudentResult, file_stem
from course_lib.diagnosis import CATALOGUE
from course_lib.exercises import NEEDS_REVIEW, NOT_PASSED, NOT_WRITTEN, PASSED, SIGNS

from .rendering import render

STYLES = {PASSED: "good", NOT_PASSED: "bad", NOT_WRITTEN: "open", NEEDS_REVIEW: "look"}  # classes of the style sheet
FEEDBACK_FOLDER = "feedback"  # holds the pages, next to the teacher's report


def feedback_page(result: StudentResult, release: Release) -> str:
    """Return the HTML page that a student gets as feedback.

    It is self-contained: it loads no other file. Whatever came from the student is escaped, and characters that would
    hide or reorder text are made visible.
    """
    return render(
        "feedback.html.j2",
        result=result,
        release=release,
        catalogue=CATALOGUE,
        style_of=STYLES,
        sign_of=SIGNS,
        needs_review=NEEDS_REVIEW,
        passed=PASSED,
    )


def page_path(student: str) -> str:
    """Return the path of a student's page, relative to the folder of the reports."""
    return f"{FEEDBACK_FOLDER}/{file_stem(student)}.html"
