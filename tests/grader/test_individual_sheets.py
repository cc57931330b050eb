"""Each student's own sheet: other questions for each, the same for the same student, and graded as that student's."""

import inspect
import json
import random
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import nbformat
import pytest

from course_grader import GradingPolicy, WorkerConfig, grade_release
from course_grader.individual_notebook import individual_notebook
from course_grader.manifest import read_manifest
from course_grader.pipeline import prepare_task
from course_grader.release import SECRET, make_release
from course_grader.reports import read_roster, sheet_for, sheets_of
from course_grader.sandbox import ResourceLimits
from course_grader.submissions import find_submissions
from course_lib.about import version
from course_lib.command import main
from course_lib.exercises import (
    EXERCISES,
    InputGenerator,
    check,
    exercise_of_sheet,
    individual_exercises,
    is_individual,
)
from course_lib.exercises.catalogue import SETS
from course_lib.exercises.local_answer import LocalAnswer
from course_lib.exercises.wrong_answers import WithWrongAnswers
from tests.grader.synthetic_class import RELEASE, notebook

ROOT = Path(__file__).resolve().parents[2]
CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section\n"
KING = "King,104,s104,king,A"
ROWS = ('"Doe, Jane",101,s101,jdoe,A', '"Roe, Rick",102,s102,rroe,A', '"Groß, Anna",103,s103,agross,A')
VARYING = [name for name, exercise in EXERCISES.items() if exercise.varies]


def roster(folder, rows=ROWS):
    path = folder / "roster.csv"
    path.write_text(CANVAS + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def judged(exercise, answer):
    return exercise.judge(LocalAnswer(answer), InputGenerator(0))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("lesson", ["01", "06", max(SETS)])
def test_the_sheet_of_another_student_earns_little(lesson):
    draw = random.Random(0)
    earned = []
    for _ in range(15):
        own, other = (individual_exercises(lesson, draw.randrange(10**9)) for _ in range(2))
        points = [exercise.difficulty for exercise in own]
        assert all(judged(exercise, exercise.solution) for exercise in own)
        copied = [judged(exercise, copy.solution).passed for exercise, copy in zip(own, other, strict=True)]
        earned.append(sum(p for p, right in zip(points, copied, strict=True) if right) / sum(points))
    assert median(earned) <= 0.3


def test_the_same_sheet_asks_the_same():
    once, again = (
        [(e.name, e.lesson, e.prompt, e.given, e.solution()) for e in individual_exercises("07", 4711)]
        for _ in range(2)
    )
    assert once == again
    assert {name for name, *_ in once} == {"question_07_a", "question_07_b", "question_07_c", "mistake_07"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", VARYING)
def test_each_variant_passes_its_own_solution_and_refuses_the_others(name):
    variants = {exercise.prompt: exercise for exercise in (exercise_of_sheet(name, sheet) for sheet in range(30))}
    assert len(variants) > 1 and exercise_of_sheet(name, 7).prompt == exercise_of_sheet(name, 7).prompt
    for prompt, exercise in variants.items():
        assert judged(exercise, exercise.solution), prompt
        for other in variants.values():
            assert other is exercise or not judged(exercise, other.solution), prompt
        if isinstance(exercise, WithWrongAnswers):
            for wrong in exercise.known:
                verdict = judged(exercise, Answered(exercise, wrong).function)
                assert not verdict and wrong.equals in verdict.message, (prompt, wrong.equals)


class Answered:
    """A known wrong answer as a function of the exercise's own name."""

    def __init__(self, exercise, wrong):
        def function(*arguments):
            return wrong.code(*arguments)

        function.__name__ = exercise.name
        function.__signature__ = inspect.signature(exercise.solution)
        self.function = function


def test_a_sheet_in_a_notebook_is_checked_as_its_own():
    exercises = ((sheet, exercise_of_sheet("merge_heads", sheet)) for sheet in range(99))
    sheet, own = next((sheet, exercise) for sheet, exercise in exercises if "token, batch" in exercise.prompt)
    assert check("merge_heads", own.solution, sheet=sheet) and not check("merge_heads", own.solution)
    with pytest.raises(ValueError, match="sheet is 'x': give the number in the sheet's cells, an integer from 0"):
        check("merge_heads", own.solution, sheet="x")
    with pytest.raises(ValueError, match="there is no exercise 'question_99_a'"):
        check("question_99_a", int, sheet=3)


def test_a_roster_gives_each_row_its_number(tmp_path):
    sheets = sheets_of(read_roster(roster(tmp_path), "week1"), b"secret")
    assert sheets == sheets_of(read_roster(roster(tmp_path), "week2"), b"secret")
    assert {s.number for s in sheets}.isdisjoint(
        s.number for s in sheets_of(read_roster(roster(tmp_path), "week1"), b"other")
    )
    for hand_in in ("doejane_101", "Jane Doe_7_assignsubmission_file", "jdoe", "Jane Doe", sheets[0].folder):
        assert sheet_for(hand_in, sheets) == sheets[0], hand_in
    assert sheet_for("somebody", sheets) is None
    with pytest.raises(ValueError, match="roster has two rows that would get the same sheet, "):
        sheets_of(read_roster(roster(tmp_path, (*ROWS, ROWS[0])), "week1"), b"secret")


def test_what_was_graded_by_other_sheets_is_graded_again(tmp_path):
    (tmp_path / "handed_in").mkdir()
    (tmp_path / "handed_in" / "doejane_101.ipynb").write_text(notebook("x = 1"), encoding="utf-8")
    rows, (submission,) = read_roster(roster(tmp_path), "week1"), find_submissions(tmp_path / "handed_in")
    releases = [replace(RELEASE, sheets=sheets_of(rows, secret)) for secret in (b"secret", b"secret", b"other")]
    config = WorkerConfig(ResourceLimits())
    tasks = [prepare_task(submission, release, GradingPolicy(), config, b"same") for release in releases]
    assert [task.digest == tasks[0].digest for task in tasks] == [True, True, False]


needs_nbgrader = pytest.mark.skipif(find_spec("nbgrader") is None, reason="needs nbgrader")


@needs_nbgrader
@pytest.mark.xdist_group("sandbox")
def test_a_class_is_graded_by_its_own_sheets(tmp_path, isolation, monkeypatch):
    # Of 50 pairs of students, one would draw the same variant and the same answer, which are more than half the points.
    monkeypatch.setattr("course_grader.secret.secrets.token_hex", lambda size: "5a" * size)
    week = make_release(ROOT / "notebooks", "week1", ["04"], tmp_path / "class", roster(tmp_path, (*ROWS, KING)))
    release = read_manifest(week / "release.json")
    assert (tmp_path / "class" / SECRET).stat().st_mode & 0o077 == 0
    jane, rick, anna, king = release.sheets
    handed_in = tmp_path / "handed_in"
    (handed_in / "king_104").mkdir(parents=True)
    shutil.copy(ROOT / "notebooks" / "exercises" / "04_exercises.ipynb", handed_in / "king_104")
    for student, sheet in {"doejane_101": jane, "roerick_102": anna, "grossanna_103": anna, "nobody": jane}.items():
        path = handed_in / student / "04_exercises.ipynb"
        path.parent.mkdir(parents=True)
        notebook = nbformat.read(week / sheet.folder / "04_exercises.ipynb", as_version=4)
        solved = individual_notebook(
            nbformat.read(ROOT / "notebooks/solutions/04_exercises.ipynb", as_version=4), "04", sheet.number
        )
        assert [cell.cell_type for cell in notebook.cells] == [cell.cell_type for cell in solved.cells]
        for cell, right in zip(notebook.cells, solved.cells, strict=True):
            if cell.metadata.get("nbgrader", {}).get("solution"):
                cell.source = right.source.replace("### BEGIN SOLUTION", "").replace("### END SOLUTION", "")
        nbformat.write(notebook, path)
    config = WorkerConfig(ResourceLimits(), course=version())
    said = []
    results = grade_release(handed_in, release, tmp_path / "out", GradingPolicy(), config, workers=1, say=said.append)
    assert any('"nobody" is nobody on the roster' in line and "the sheet is Doe, Jane's" in line for line in said)
    page = (tmp_path / "out" / "look_through.html").read_text(encoding="utf-8")
    assert "The right answer on this sheet: <code>" in page and "The question: " in page
    of = {result.student: result for result in results}
    total = sum(exercise.points for exercise in release.exercises)
    assert sum(mark.points for mark in of["doejane_101"].marks) == total
    assert sum(mark.points for mark in of["grossanna_103"].marks) == total
    own = {name for name in (each.name for each in release.exercises) if is_individual(name)}
    copied = {mark.verdict.name: mark.points for mark in of["roerick_102"].marks}
    assert sum(copied[name] for name in own) <= 0.5 * sum(each.points for each in release.exercises if each.name in own)
    assert all(copied[each.name] == each.points for each in release.exercises if each.name not in own)
    assert "the sheet of another student" in of["roerick_102"].flags
    assert f"is sheet {anna.number}, and yours is {rick.number}" in " ".join(of["roerick_102"].remarks)
    unknown = {mark.verdict.name: mark.verdict for mark in of["nobody"].marks}
    assert all("nobody of that name was on the roster" in unknown[name].message for name in own)
    record = json.loads((week / "release.json").read_text(encoding="utf-8"))
    assert record["is_individual"] and len(record["sheets"]) == 4
    told = f"04_exercises.ipynb is the sheet that anybody can have: your own, {king.number}, has other"
    assert [student for student in of if told in " ".join(of[student].remarks)] == ["king_104"]


@needs_nbgrader
def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    order = ["release", "week1", "--lessons", "01", "--to", str(tmp_path / "class"), "--individual"]
    assert main([*order, str(roster(tmp_path))]) == 0
    assert "3 folders in" in capsys.readouterr().out
    before = (tmp_path / "class" / SECRET).read_bytes()
    assert main(["release", "week2", *order[2:], str(roster(tmp_path))]) == 0
    assert (tmp_path / "class" / SECRET).read_bytes() == before
    assert main(["release", "week3", *order[2:], str(tmp_path / "none.csv")]) == 2
    assert "roster is" in capsys.readouterr().err
    assert not (tmp_path / "class" / "week3").exists()
