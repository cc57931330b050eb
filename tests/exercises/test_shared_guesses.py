"""Guesses stay with a learner who has not agreed; who agrees sees what goes along, and that is guesses only."""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

from course_lib.exercises import predict, predictions, share_guesses

SOURCES = Path(__file__).parents[2] / "notebooks" / "sources"


def said(*arguments, **options):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        share_guesses(*arguments, **options)
    return text.getvalue().strip()


@pytest.fixture
def lesson(tmp_path, monkeypatch):
    """A function that writes a learner's lesson 01, with what `predict` prints, beside a folder of sheets."""
    (tmp_path / "2_exercises").mkdir()
    monkeypatch.chdir(tmp_path / "2_exercises")

    def write(guesses, folder="1_lessons"):
        cells = [{"cell_type": "markdown", "source": ["My notes: predict(me)"]}]
        for number, (guess, answer) in guesses.items():
            with contextlib.redirect_stdout(io.StringIO()) as text:
                predict(guess, answer)
            source = f"secret = 1\nguess = {guess!r}\n{predictions('01')[number - 1].call}"
            output = {"output_type": "stream", "name": "stdout", "text": text.getvalue().splitlines(keepends=True)}
            cells.append({"cell_type": "code", "source": source, "outputs": [{"output_type": "display_data"}, output]})
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "01_single_head.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")

    return write


@pytest.mark.parametrize("path", sorted(SOURCES.glob("*.py")), ids=lambda path: path.stem[:2])
def test_each_question_is_known_by_its_call(path):
    asked, calls = predictions(path.stem[:2]), re.findall(r"^predict\(", path.read_text("utf-8"), re.MULTILINE)
    assert len(asked) == len({one.call for one in asked}) == len(calls)
    assert all(len(one.question) > 10 and "**" not in one.question.replace("2**30", "") for one in asked)


@pytest.mark.parametrize("agree", [{}, {"agree": False}, {"agree": "yes"}, {"agree": ...}])
def test_nothing_is_printed_without_leave(lesson, agree):
    lesson({1: (0.5, 0.2)})
    assert said("01", **agree) == "Your guesses stay with you."


@pytest.mark.parametrize("folder", ["1_lessons", ".", "2_exercises"])
def test_guesses_go_along_and_nothing_else(lesson, folder):
    lesson({2: (3, 3), 1: (0.5, 0.2), 4: (..., 7)}, folder)
    first, second = said(1, agree=True).splitlines()
    assert first == "Lesson 01, guess 1: You guessed 0.5; it is 0.2."
    assert second == "Lesson 01, guess 2: You guessed 3; it is 3."


@pytest.mark.parametrize("number", ["01", "99", "x/../*", None])
def test_where_there_is_nothing_to_share_it_says_so(lesson, number):
    assert "nothing goes along" in said(number, agree=True)
    lesson({4: (..., 7)})
    assert "nothing goes along" in said(number, agree=True)
    Path("../1_lessons/01_single_head.ipynb").write_text('{"cells": [1, {}]}')
    assert "nothing goes along" in said(number, agree=True)
