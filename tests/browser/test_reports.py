"""What teachers and students get after grading, in a real browser: readable for all, whatever a student wrote."""

import pytest

from course_grader import Release, released_exercises
from course_grader.decisions import Decision, read_decisions
from course_grader.reports import class_report, feedback_page, look_through, shown_name
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


CLASS = [graded(HOSTILE), graded("Ada"), graded("W" * 300)]
REPORTS = {
    "feedback": feedback_page(graded(HOSTILE), RELEASE),
    "feedback of a long name": feedback_page(graded("W" * 300, (not_written(),) * 4), RELEASE),
    "answers": look_through(
        CLASS,
        RELEASE,
        {result.student: result.student for result in CLASS},
        {(HOSTILE, "split_heads"): f"def split_heads(x):  # {HOSTILE}\n    return '</script></pre>'"},
        {("Ada", "number_at"): "17"},
        {("Ada", "merge_heads"): ("1", f'No, "{HOSTILE}"')},
    ),
    "report": class_report(CLASS, RELEASE, guesses=[{"04": {1: (HOSTILE, "x" * 61)}}] * 3),
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


def test_decisions_are_made_on_the_page_and_read_by_grading(browser, tmp_path):
    (tmp_path / "page.html").write_text(REPORTS["answers"], encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    count = page.locator("#count")
    assert count.inner_text() == f"{3 * len(RELEASE.exercises)} of {3 * len(RELEASE.exercises)} answers, 1 decided."
    page.get_by_label("Exercise").select_option("split_heads")
    page.get_by_label("Name").fill("ada")
    assert count.inner_text().startswith("1 of ")
    card = page.locator("article:visible")
    card.get_by_label("Points").fill("99")
    assert count.inner_text().endswith("; in 1 the points can't be given.")
    page.get_by_label("Name").fill("nobody")
    page.get_by_role("button", name="Download decisions.csv").click()  # it leads to what is wrong
    focused = page.locator("input:focus")
    assert focused.input_value() == "99" and focused.get_attribute("aria-invalid") == "true"
    card = page.locator("article", has=focused)
    card.get_by_label("Points").fill("")
    card.get_by_label("Comment").fill('Right idea, "wrong" axis')
    assert count.inner_text().endswith("; 1 with a comment and no points, which doesn't count.")
    card.get_by_label("Points").press_sequentially("0,5")
    card.get_by_label("Points").press("Enter")
    assert page.evaluate("document.activeElement.closest('article').dataset.exercise") == "merge_heads"
    page.get_by_label("Exercise").select_option("split_heads")
    page.get_by_label("Name").fill("document.title")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    assert count.is_visible() and count.bounding_box()["y"] >= 0
    page.locator("article:visible").get_by_label("Points").fill("0")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download decisions.csv").click()
    assert download.value.suggested_filename == "decisions.csv"
    download.value.save_as(tmp_path / "decisions.csv")
    students = [HOSTILE, "Ada", "W" * 300]
    assert read_decisions(tmp_path / "decisions.csv", RELEASE, students) == {
        (shown_name(HOSTILE), "split_heads"): Decision(0.0),
        ("Ada", "split_heads"): Decision(0.5, 'Right idea, "wrong" axis'),
        ("Ada", "merge_heads"): Decision(1.0, f'No, "{HOSTILE}"'),
    }
    page.close()
