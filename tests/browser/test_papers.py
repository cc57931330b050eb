"""What teachers and students get after grading, in a real browser: readable for all, whatever a student wrote."""

import pytest
from browser.site import Complaints, violations

from course_lib.classroom.marks import Graded, Mark
from course_lib.classroom.papers.class_report import class_report
from course_lib.classroom.papers.feedback import feedback_page
from course_lib.classroom.record import Record, asked
from course_lib.exercises.verdict import LOOK, Verdict, not_passed, not_written, passed

RECORD = Record("week1", "1", "0", asked(["04"]))
HOSTILE = "<script>document.title = 'LEAK'</script><img src=x onerror=alert(1)>\u202e=cmd()"
VERDICTS = (
    passed("Right on 3 inputs of different sizes."),
    not_passed(f"Your code stopped at `{HOSTILE}`.", evidence=("x" * 600,), where="cell 3:1"),
    not_passed("Your result equals a view straight to the shape.", "split-without-transpose", evidence=("Seen.",)),
    Verdict(LOOK, "Its parameters can't be compared."),
)


def graded(name, verdicts=VERDICTS):
    marks = tuple(
        Mark(verdict.of(one.name, one.lesson), one.title, one.points if verdict else 0, one.points)
        for one, verdict in zip(RECORD.exercises, verdicts, strict=True)
    )
    return Graded(name, marks, remarks=(HOSTILE,), handed_in="2026-11-20T17:03:00+00:00", late=True)


PAPERS = {
    "feedback": feedback_page(graded(HOSTILE), RECORD),
    "feedback of a long name": feedback_page(graded("W" * 300, (not_written(),) * 4), RECORD),
    "report": class_report([graded(HOSTILE), graded("Ada"), graded("W" * 300)], RECORD),
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("which", PAPERS)
def test_a_paper(browser, tmp_path, which, theme):
    (tmp_path / "page.html").write_text(PAPERS[which], encoding="utf-8")
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
