"""Every stored notebook passes the lint: see tools/notebooks/lint.py for what that means."""

from pathlib import Path

import pytest

from tools.notebooks.address import read_address
from tools.notebooks.jupytext_pairs import sync
from tools.notebooks.lesson_files import find_notebooks
from tools.notebooks.lint import lint

ROOT = Path(__file__).resolve().parents[3]
LESSONS = find_notebooks(ROOT)


def test_there_are_lessons(real_lessons):
    numbers = [int(lesson.name[:2]) for lesson in real_lessons]
    assert numbers[0] == 0 and len(set(numbers)) == len(numbers), f"the lessons are not numbered from 00 on: {numbers}"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.label)
def test_a_stored_notebook_passes(lesson):
    found = lint(lesson, read_address(ROOT), ROOT)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.slow
def test_the_small_lesson_passes(small_lesson, address):
    assert lint(small_lesson, address, small_lesson.folder.parent) == []


def test_a_lesson_without_code_is_found(small_lesson, address):
    small_lesson.py.write_text("# %% [markdown]\n# # Only words\n", encoding="utf-8")
    small_lesson.ipynb.unlink()
    sync(small_lesson)
    assert "00_small: there is no code cell." in lint(small_lesson, address)


@pytest.mark.parametrize("suffix", ["py", "ipynb"])
def test_half_a_pair_is_found(small_lesson, address, suffix):
    getattr(small_lesson, suffix).unlink()
    (found,) = lint(small_lesson, address)
    assert found.startswith(f"00_small: 00_small.{suffix} is missing")
