"""Where a verdict leads in a notebook: the lesson near the learner, the mistake's page in the book."""

import re

import pytest

from course_lib.exercises import check, links
from course_lib.mistakes import CATALOGUE
from course_lib.workspace import FOLDERS

from .small_answers import unscaled

PAGE = "https://attention-course.github.io/attention-course/mistakes/missing-scale.html"

pytestmark = pytest.mark.usefixtures("kernel")


@pytest.fixture
def lessons(tmp_path, monkeypatch):
    """Notebooks as they lie in the repository; the kernel runs beside the exercises."""
    (tmp_path / "notebooks" / "exercises").mkdir(parents=True)
    for name in ("01_single_head", "01_single_head-Copy1", "02_masks_and_dropout"):
        (tmp_path / "notebooks" / f"{name}.ipynb").touch()
    for name in ("01_exercises", "01_exercises-Copy1", "01_exercises_before_2026-11-22_080000"):
        (tmp_path / "notebooks" / "exercises" / f"{name}.ipynb").touch()
    monkeypatch.chdir(tmp_path / "notebooks" / "exercises")


def links_of(verdict):
    return re.findall(r'<a href="([^"]*)">([^<]*)</a>', verdict._repr_html_())


def test_a_notebook_links_the_mistake_and_the_lesson(lessons):
    verdict = check("scaled_scores", unscaled())
    assert links_of(verdict) == [(PAGE, "missing-scale"), ("../01_single_head.ipynb", "01")]
    assert "This mistake is called: missing-scale\n" in repr(verdict)
    assert repr(verdict).endswith("Look again at lesson: 01"), "text stays text"


def test_a_blank_in_its_lesson_sends_nobody_to_the_lesson(lessons):
    """In the lesson itself a link would lead to where the reader is, and on Colab there would be none."""
    verdict = check("row_sums", lambda weights: weights.sum(dim=0))
    assert not verdict.passed and not links_of(verdict) and "Look again" not in repr(verdict)


def test_the_third_try_links_the_section_and_the_page(lessons):
    for _ in range(3):
        verdict = check("scaled_scores", unscaled())
    heading = "Why divide by the square root of the width?"
    place = "../01_single_head.ipynb#Why-divide-by-the-square-root-of-the-width?"
    assert links_of(verdict)[2:] == [(place, f"{heading}, in lesson 01"), (PAGE, PAGE)]


def test_lessons_are_found_from_a_workspace_beside_them(lessons, tmp_path, monkeypatch):
    (tmp_path / "my space").mkdir()
    monkeypatch.chdir(tmp_path / "my space")
    assert links_of(check("scaled_scores", unscaled()))[1][0] == "../notebooks/01_single_head.ipynb"
    assert links.lesson_page("03") is None


def test_the_lesson_in_the_learners_own_workspace_comes_first(tmp_path, monkeypatch):
    for folder, name in (("", "01_single_head"), ("exercises", "01_exercises")):
        (tmp_path / FOLDERS[folder]).mkdir()
        (tmp_path / FOLDERS[folder] / f"{name}.ipynb").touch()
    monkeypatch.chdir(tmp_path / FOLDERS["exercises"])
    assert links.lesson_page("01") == f"../{FOLDERS['']}/01_single_head.ipynb"


def test_a_link_is_written_as_an_address(tmp_path, monkeypatch):
    (tmp_path / '01_a "b" c.ipynb').touch()
    assert links.lesson_page("01") == "01_a%20%22b%22%20c.ipynb"


def test_where_the_lesson_is_unknown_its_number_stays(tmp_path):
    assert links_of(check("scaled_scores", unscaled())) == [(PAGE, "missing-scale")]


def test_without_an_address_the_third_try_still_names_the_section(monkeypatch):
    monkeypatch.setattr(links, "page_of", lambda mistake: None)
    for _ in range(3):
        verdict = check("scaled_scores", unscaled())
    assert "Read the section" in repr(verdict) and "See it beside" not in repr(verdict)
    assert links_of(verdict) == []


def test_only_mistakes_of_the_catalogue_have_a_page():
    assert links.mistake_page("no-such-mistake") is None and links.mistake_page("missing-scale") == PAGE


def test_each_section_is_in_its_lesson():
    from pathlib import Path

    notebooks = Path(__file__).resolve().parents[2] / "notebooks" / "sources"
    with_section = [mistake for mistake in CATALOGUE.values() if mistake.section]
    assert len(with_section) >= 30
    for mistake in with_section:
        (lesson,) = notebooks.glob(f"{mistake.lesson}_*.py")
        assert f"\n# ## {mistake.section}\n" in lesson.read_text(encoding="utf-8"), f"{mistake.id}: not in {lesson}"
