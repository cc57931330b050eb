"""The guesses of who agreed are added up in the report, without names; whatever else a sheet holds there is ignored."""

import json
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from course_grader.release import make_release
from course_grader.reports import class_report
from course_grader.reports.guess_counts import count_guesses
from course_grader.submissions import read_notebook
from tests.grader.synthetic_class import RELEASE, student_result

ROOT = Path(__file__).resolve().parents[2]
AGREED, REFUSED = (f'share_guesses("04", agree={said})' for said in (True, False))
LINE = "Lesson 04, guess {}: You guessed {}; it is {}."


def shared(text, source=AGREED):
    outputs = text if isinstance(text, list) else [{"output_type": "stream", "name": "stdout", "text": text}]
    cells = [{"cell_type": "code", "source": source, "outputs": outputs}]
    return read_notebook(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}).encode()).guesses


def test_only_with_leave():
    line = LINE.format(1, "(1, 2)", "(2, 1)")
    assert shared(f"{line}\n") == {"04": {1: ("(1, 2)", "(2, 1)")}}
    assert shared(line, REFUSED) == {"04": {}}  # it takes back what an earlier sheet shared
    for source in ("share_guesses('04')", f"# {AGREED}", f"print('{LINE}')"):
        assert shared(line, source) == {}


@pytest.mark.parametrize(
    "text",
    [
        LINE.format(1, "x" * 10**6, 3),
        "\n".join([LINE.format(1, "", "")] * 10**5),
        LINE.format(123456789, 1, 1),
        LINE.format(1, 1, 1).replace("04", "05"),
        [None, 3, {"text": None}, {"text": {"a": 1}}, {"text": [1, None]}],
        [[[[]]]],
    ],
)
def test_odd_ones_share_nothing(text):
    assert shared(text) == {"04": {}}


def test_the_report_adds_up_and_names_nobody():
    hostile = "<b>\u202e"
    texts = [LINE.format(1, guess, "(1, 4)") for guess in ["(4, 1)"] * 3 + [hostile] + [*"abcdefghi"]]
    forged = [LINE.format(1, 0, "(4, 1)"), LINE.format(77, 1, 1), LINE.format(2, 5, 6)]
    students = [shared(text) for text in texts + forged]
    (count,) = count_guesses(students, RELEASE)  # of what two or fewer share, nothing is shown
    assert (count.number, count.answer, count.guesses[0]) == (1, "(1, 4)", ("(4, 1)", 3))
    assert sum(each for _, each in count.guesses) + count.others == len(texts) + 1
    page = class_report([student_result("Ada", (), RELEASE.__class__("w", "1", "0", ()))], RELEASE, guesses=students)
    assert "The lesson gives <bdi>(1, 4)</bdi>. Guessed: <bdi>(4, 1)</bdi> (3)" in page and "<b>" not in page
    assert "How the class guessed" not in class_report([], RELEASE, guesses=students[:2])


@pytest.mark.skipif(find_spec("nbgrader") is None, reason="needs nbgrader")
def test_a_sheet_asks_and_shares_nothing_by_itself(tmp_path):
    week = make_release(ROOT / "notebooks", "week4", ["04"], tmp_path, guesses=True)
    notebook = nbformat.read(week / "04_exercises.ipynb", as_version=4)
    about, cell = notebook.cells[-4:-2]
    assert "what you guessed in the lesson? Then write `True`" in about.source.replace("\n", " ")
    assert cell.source.endswith('\nshare_guesses("04", agree=False)')
    assert read_notebook((week / "04_exercises.ipynb").read_bytes()).guesses == {"04": {}}
