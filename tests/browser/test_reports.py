"""What teachers and students get after grading, in a real browser: readable for all, whatever a student wrote."""

import pytest

from course_grader import Release, released_exercises
from course_grader.reports import class_report, feedback_page
from course_lib.exercises import NEEDS_REVIEW, Verdict, not_passed, not_written, passed
from tests.grader.synthetic_class import student_result

from .site import Complaints, violations

RELEASE = Release("week1", "1", "0", released_exercises(["04"])[:4])
HOSTILE = "<script>document.title = 'LEAK'</script><img src=x onerror=alert(1)>\u202e=cmd()"
VERDICTS = (
    passed("Right on 3 inputs of different sizes."),
    not_passed(f"Your code stopped at `{HOSTILE}`.", evidence=("x" * 600,), where="cell 3:1"),
    not_passed("Your result equals a view straight to the shape.", "split-without-transpose", evidence=("Seen.",)),
    Verdict(NEEDS_REVIEW, "Its parameters can't be compared."),
)


def graded(name, verdicts=VERDICTS):
    more = {"remarks": (HOSTILE,), "submitted_at": "2026-11-20T17:03:00+00:00", "late": True}
    return student_result(name, verdicts, RELEASE, **more)


REPORTS = {
    "feedback": feedback_page(graded(HOSTILE), RELEASE),
    "feedback of a long name": feedback_page(graded("W" * 300, (not_written(),) * 4), RELEASE),
    "report": class_report([graded(HOSTILE), graded("Ada"), graded("W" * 300)], RELEASE),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("which", REPORTS)
def test_a_report(browser, tmp_path, which, theme):
    (tmp_path / "page.html").write_text(REPORTS[which], encoding="utf-8")
    profile = browser.new_context(color_scheme=theme, viewport={"width": 360, "height": 900})
    page, complaints = profile.new_page(), Complaints(tmp_path.as_uri())
    complaints.watch(page)
    page.goto((tmp_path / "page.html").as_uri())
    assert page.title() != "LEAK" and page.locator("main h1").count() == 1
    for width in (360, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert not violations(page)
    assert not complaints.found
    profile.close()
