"""The report counts right, shows no name in its picture, and says what to explain."""

import importlib
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise

import pytest

from course_grader import Release
from course_grader.manifest import ReleasedExercise
from course_grader.reports import page_path
from course_grader.reports.class_report import MAX_BARS, class_report, count_mistakes, unnamed_mistakes
from course_lib.exercises import NEEDS_REVIEW, Verdict, not_passed, not_written, passed
from course_lib.mistakes import CATALOGUE
from tests.grader.synthetic_class import student_result

RELEASE = Release(
    "week1",
    "0.1.0",
    "abc1234",
    (ReleasedExercise("first", "02", "The first", 1), ReleasedExercise("second", "04", "The second", 3)),
)
OFF, GONE = "mask-off-by-one", "mask-discarded"


def student(name, *verdicts, **more):
    return student_result(name, verdicts, RELEASE, **more)


CLASS = [
    student("Zoë <b>", passed("Right."), passed("Right.")),
    student("anna", not_passed("Wrong.", OFF), not_passed("Wrong.", OFF), late=True),
    student("Bert", not_passed("Wrong.", OFF), not_passed("Wrong.", GONE)),
    student("Carla", not_passed("No name."), Verdict(NEEDS_REVIEW, "Odd.", mistake=OFF)),
    student("Dirk", not_passed("Wrong.", "unheard-of"), not_written()),
]


def cells(page, row):
    """The words of each cell of the row with this beginning."""
    found = re.search(rf'<tr><th scope="row">{row}.*?</tr>', page, re.DOTALL)[0]
    return [unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[hd].*?</t[hd]>", found, re.DOTALL)]


def facts(page):
    return dict(re.findall(r"<dt>([^<]+)</dt><dd>([^<]+)</dd>", page))


def test_the_numbers_of_the_class():
    found = facts(class_report(CLASS, RELEASE))
    assert (found["Handed in"], found["Late"], found["For you to look at"]) == ("5", "1", "1")
    assert (found["Mean"], found["Median"]) == ("0.8 of 4 points", "0 of 4 points")


def test_where_the_class_stands_in_each_exercise():
    page = class_report(CLASS, RELEASE)
    assert cells(page, "The first") == ["The first (first)", "02", "1", "4", "0", "0", "0", "2", "none"]
    assert cells(page, "The second") == ["The second (second)", "04", "1", "2", "1", "1", "0", "0", "none"]


def test_a_mistake_counts_once_a_student():
    first, second = count_mistakes(CLASS, RELEASE)
    assert (first.entry.id, first.students, first.exercises) == (OFF, 2, ("first", "second"))
    assert (second.entry.id, second.students, second.exercises) == (GONE, 1, ("second",))


def test_wrong_answers_without_a_name_are_listed_by_their_message():
    """Numbers differ from student to student, because the inputs do; what follows from a helper is not one of them."""
    told = "At [0, {}] your result is {}; *it* should be `a * b * c`."
    many = [student(f"s{at:02}", not_passed(told.format(at, at / 3)), passed("Right.")) for at in range(12)]
    many += [student("Zoë <b>", not_passed("Other."), not_passed("Wrong.", OFF)), *CLASS[:3]]
    caused = student("follows", not_passed("Other."), not_passed("Wrong.", OFF))
    many.append(replace(caused, marks=tuple(replace(mark, caused_by=("helper",)) for mark in caused.marks)))
    first, second = unnamed_mistakes(many, RELEASE)
    assert (first.exercise, first.message, len(first.students)) == ("first", told.format(0, 0.0), 12)
    assert (second.message, second.students) == ("Other.", ("Zoë <b>",))
    assert next(count for count in count_mistakes(many, RELEASE) if count.entry.id == OFF).students == 3
    page = class_report(many, RELEASE, {"s00": "Adams, Ada"}, ["A <note>."])
    part = page.split('<h2 id="unnamed">Wrong answers without a name</h2>')[1].split("</table>")[0]
    assert "<em>it</em> should be <code>a * b * c</code>" in part and part.count("<tr>") == 3
    assert part.count('href="feedback/') == 10 + 1 and " and others" in part and "<bdi>Adams, Ada</bdi>" in part
    assert "<li>A &lt;note&gt;.</li>" in page
    assert cells(page, "The first")[-2:] == ["13", "1 by helper"]


def test_the_catalogues_emphasis_is_shown():
    page = class_report([student("a", not_passed("W.", "mask-inverted"), passed("R."))], RELEASE)
    assert "True means <em>may attend</em> to" in page and "*may attend*" not in page


def test_it_says_what_to_explain(monkeypatch):
    module, drawn = importlib.import_module("course_grader.reports.class_report"), {}
    chart = module.count_chart
    monkeypatch.setattr(module, "count_chart", lambda values, **more: drawn.update(values) or chart(values, **more))
    page = class_report(CLASS, RELEASE)
    assert list(drawn.items()) == [(f"{OFF} (lesson 02)", 2), (f"{GONE} (lesson 02)", 1)]
    assert cells(page, f'<a href="#{OFF}"') == [OFF, "2", "first, second"]
    part = unescape(page.split(f'<section class="exercise" id="{OFF}"')[1].split("</section>")[0])
    for said in (CATALOGUE[OFF].title, CATALOGUE[OFF].hint, "lesson 02", "2 of 5, in first, second"):
        assert said in part
    image = unescape(re.search(r'<img alt="([^"]*)" src="data:', page)[1])
    assert f"{OFF} (lesson 02): 2" in image
    assert not any(student.student in image for student in CLASS)


def test_each_student_has_a_link():
    page = class_report(CLASS, RELEASE)
    links = re.findall(r'<a href="(feedback/[^"]+)"><bdi>(.*?)</bdi>', page.split("<h2>Students</h2>")[1])
    assert [unescape(name) for _, name in links] == ["anna", "Bert", "Carla", "Dirk", "Zoë <b>"]
    assert all(link == page_path(unescape(name)) for link, name in links)
    rows = [re.sub(r"<[^>]+>|\s+", " ", row) for row in page.split("<h2>Students</h2>")[1].split("</tr>")[1:-1]]
    assert [row.split()[-3:] for row in rows[:2]] == [["0", "late", "nothing"], ["0", "no", "nothing"]]
    assert rows[2].split() == ["Carla", "0", "no", "second"]


def test_its_bones_are_in_order():
    page = class_report(CLASS, RELEASE)
    assert page.count("<h1>") == page.count("<main>") == 1 and "<script" not in page
    assert not re.search(r"(src|href)=\"?https?:", page)
    headings = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert all(after - before <= 1 for before, after in pairwise(headings))
    assert page.count("<table>") == page.count("<caption>") == 4
    assert not re.search(r"<th(?! scope=|ead)", page)


@pytest.mark.parametrize("count", [0, 1])
def test_a_small_class(count):
    page = class_report(CLASS[:count], RELEASE)
    said = "No answer has a mistake with a name." if count else "Nobody handed in anything."
    assert said in page and "<img" not in page


@pytest.mark.slow
def test_a_large_class_with_every_mistake():
    known = list(CATALOGUE)
    many = [
        student(f"student {at}", not_passed("Wrong.", known[at % len(known)]), passed("Right.")) for at in range(3000)
    ]
    page = class_report(many, RELEASE)
    assert page.count('href="feedback/') == 3000 and len(page) < 2_000_000
    assert page.count('<section class="exercise"') == len(known) > MAX_BARS
    alt = re.search(r'<img alt="([^"]*)"', page)[1]
    assert alt.count(" (lesson ") == MAX_BARS and f"The {MAX_BARS} most frequent of {len(known)}" in alt
