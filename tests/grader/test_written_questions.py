"""`course release --explain`: a question whose answer is a sentence, which a person reads and gives points for."""

import csv
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from course_grader import GradingPolicy, WorkerConfig, grade_release
from course_grader.manifest import read_manifest
from course_grader.sandbox import ResourceLimits
from course_lib.about import version
from course_lib.command import main
from course_lib.exercises import NEEDS_REVIEW, NOT_PASSED, NOT_WRITTEN, check, is_individual, written_exercises
from course_lib.exercises.catalogue import SETS

ROOT = Path(__file__).resolve().parents[2]


def test_each_sheet_has_one():
    assert [*written_exercises()] == [f"explain_{lesson}" for lesson in SETS]
    assert all(
        len(exercise.look_for) == 3 and not is_individual(name) for name, exercise in written_exercises().items()
    )


def explain_02():
    raise NotImplementedError


@pytest.mark.parametrize(
    ("answer", "state", "said"),
    [
        (lambda: "Rows no longer\n  sum to 1.", NEEDS_REVIEW, "“Rows no longer sum to 1.”"),
        (lambda: "  ", NOT_WRITTEN, "Put your code in place of"),
        (explain_02, NOT_WRITTEN, "Put your code in place of"),
        (lambda: ["Rows"], NOT_PASSED, "Let the function give a text back, in quotes; it gives back a list."),
        (lambda: rows, NOT_PASSED, "name 'rows' is not defined"),  # noqa: F821
    ],
)
def test_no_check_judges_it(answer, state, said):
    answer.__name__ = "explain_02"
    verdict = check("explain_02", answer)
    assert verdict.state == state and said in verdict.message, verdict
    assert not any(words in repr(verdict) for words in written_exercises()["explain_02"].look_for)


@pytest.mark.skipif(find_spec("nbgrader") is None, reason="needs nbgrader")
@pytest.mark.xdist_group("sandbox")
def test_the_teacher_reads_it_and_gives_the_points(tmp_path, isolation, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["release", "week1", "--lessons", "01", "--to", str(tmp_path), "--explain"]) == 0
    release = read_manifest(tmp_path / "week1" / "release.json")
    assert "explain_01" in [exercise.name for exercise in release.exercises]
    notebook = nbformat.read(tmp_path / "week1" / "01_exercises.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    question = written_exercises()["explain_01"]
    assert question.prompt[:30] in text and question.solution() not in text and question.look_for[0] not in text
    for cell in notebook.cells:
        if cell.source.startswith("def explain_01():"):
            cell.source = 'def explain_01():\n    return "Wide heads have large scores, so <b>softmax</b> saturates."'
    (tmp_path / "in" / "ann").mkdir(parents=True)
    nbformat.write(notebook, tmp_path / "in" / "ann" / "01_exercises.ipynb")

    def graded():
        config = WorkerConfig(ResourceLimits(), course=version())
        (ann,) = grade_release(tmp_path / "in", release, tmp_path / "out", GradingPolicy(), config, workers=1)
        return next(mark for mark in ann.marks if mark.verdict.name == "explain_01")

    mark = graded()
    assert mark.verdict.state == NEEDS_REVIEW and "softmax</b> saturates.”" in mark.verdict.message and not mark.points
    page = (tmp_path / "out" / "look_through.html").read_text(encoding="utf-8")
    assert f"A good answer says: {'; '.join(question.look_for)}." in page and "&lt;b&gt;softmax" in page
    assert question.look_for[0] not in "".join(one.read_text() for one in (tmp_path / "out" / "feedback").iterdir())
    table = tmp_path / "out" / "decisions.csv"
    rows = list(csv.DictReader(table.open(encoding="utf-8-sig")))
    assert [(row["exercise"], row["points"]) for row in rows] == [("explain_01", "")]
    rows[0] |= {"points": "1.5", "comment": "And its gradient?"}
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    mark = graded()
    assert (mark.points, mark.possible, mark.verdict.message) == (1.5, 2, "And its gradient?")
