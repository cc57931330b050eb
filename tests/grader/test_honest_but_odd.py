"""Classes that are honest but odd lose nothing, and the teacher is told what to look at."""

import json
import os
import re
import threading
import time
from dataclasses import replace
from datetime import datetime

import pytest

from course_grader import (
    GradingPolicy,
    Release,
    StudentResult,
    WorkerConfig,
    grade_release,
    pipeline,
    released_exercises,
)
from course_grader.commands import grade as command
from course_grader.decisions import parse_due
from course_grader.grading import GradingTask, grade_student
from course_grader.marks import MISSING
from course_grader.reports import class_report, page_path, write_gradebook
from course_grader.reports.csv_table import read_table, write_table
from course_grader.reports.roster import identities
from course_grader.sandbox import ResourceLimits, Sandbox
from course_grader.submissions import (
    OWN_TIMESTAMP,
    Cell,
    Notebook,
    SubmittedNotebook,
    find_submissions,
    read_notebook,
    select_notebooks,
)
from course_grader.submissions.student_names import parse_submission_name
from course_lib.about import version
from course_lib.command import main
from course_lib.exercises import NEEDS_REVIEW, Verdict, passed
from tests.grader.synthetic_class import POINTS, RELEASE, RELEASED, RIGHT, notebook, student_result

pytestmark = pytest.mark.xdist_group("sandbox")
CONFIG = WorkerConfig(ResourceLimits(), course=version())


@pytest.fixture(scope="module")
def sandboxes(isolation):
    limits = ResourceLimits(cell=3, answer=3, notebook=20)
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:
        yield sandbox, exposed


def sheet(name, *sources, at=0.0):
    return SubmittedNotebook(name, at, False, read_notebook(notebook(*sources).encode()))


# Which cell counts


def made(*names):
    return Notebook(tuple(Cell(number, "", name, (name,), is_released=True) for number, name in enumerate(names, 1)))


def helper(*names):
    return Notebook(tuple(Cell(number, "", name, (name,)) for number, name in enumerate(names, 1)))


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (("01_exercises.ipynb", made("attention")), ("02_exercises.ipynb", helper("attention"))),
        (("01_exercises.ipynb", helper("attention")), ("02_exercises.ipynb", made("causal_mask"))),
        (("01_exercises.ipynb", helper("attention")), ("02_exercises-1.ipynb", helper("attention"))),
        (("mine.ipynb", made("softmax_rows")), ("02_exercises.ipynb", made("causal_mask"))),
    ],
    ids=["grade_id", "name of the file", "copy", "another exercise of its lesson"],
)
def test_a_helper_in_another_sheet_replaces_no_answer(own, other):
    other_cells = Notebook((*other[1].cells, Cell(9, "def attention(): ...", "attention", ("attention",))))
    own_cells = Notebook((*own[1].cells, Cell(9, "def attention(): ...", "attention", ("attention",))))
    mine = SubmittedNotebook(own[0], 0.0, False, own_cells)
    later = SubmittedNotebook(other[0], 5.0, False, other_cells)
    assert select_notebooks([mine, later], ["attention"]).notebook_of["attention"] is own_cells
    assert select_notebooks([later], ["attention"]).notebook_of["attention"] is other_cells  # better than nothing


def test_the_metadata_says_for_what_a_cell_was_made():
    cell = {"cell_type": "code", "source": "attention = 3", "outputs": []}
    cell["metadata"] = {"nbgrader": {"grade_id": "causal_mask", "solution": True}}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4})
    assert read_notebook(text.encode()).released_exercises == {"causal_mask"}


# Names


def test_a_display_name_of_moodle_takes_nobodys_place():
    folder = "Bob Lee_55_assignsubmission_file__77_assignsubmission_file"
    name = parse_submission_name(folder, is_folder=True)
    assert name.student == folder and identities(name.student)[0] == "Participant 77"
    file = "Eve_77_assignsubmission_file_Bob Lee_55_assignsubmission_file"
    for suffix in (".ipynb", "_x.ipynb"):
        found = parse_submission_name(file + suffix, is_folder=False).student
        assert found.startswith("Eve_77") and "Participant 55" not in identities(found)


# Tables


@pytest.mark.parametrize("text", ["semi;=1+1;x", ";=1+1|cmd", "a; \t+1", "a\t=1+1", "a|@x", "＝1+1", "x\n-1"])
def test_no_part_of_a_cell_is_a_formula(tmp_path, text):
    write_table(tmp_path / "t.csv", [["name"], [text], ["a, b"]])
    written = (tmp_path / "t.csv").read_text(encoding="utf-8-sig")
    parts = [part.strip(' "') for part in re.split(r"[;|\t\n\r]", written)]
    assert not any(part.startswith(tuple("=+-@＝")) for part in parts)


def test_a_cell_of_the_roster_is_no_formula_either(tmp_path):
    (tmp_path / "roster.csv").write_text('Student,ID,Section,Email\nJane,7,A,"=HYPERLINK(""http://x"")"\n')
    write_gradebook([student("Jane", passed("Right."))], RELEASE, tmp_path, tmp_path / "roster.csv")
    assert read_table(tmp_path / "grades.csv")[1][-2].startswith("'=HYPERLINK")


@pytest.mark.parametrize("text", ['Student,ID\n"Jane,7\nBob,8\n', "Student,ID\nJa\0ne,7\n"], ids=["open quote", "NUL"])
def test_a_damaged_roster_is_refused_before_grading(class_, text):
    give(class_, "ada", *RIGHT.values())
    (class_ / "roster.csv").write_text(text)
    with pytest.raises(ValueError, match=r"^roster is .*roster\.csv, which is not a CSV file"):
        graded(class_, roster=class_ / "roster.csv")
    assert not (class_ / "out").exists()


@pytest.mark.slow
def test_two_writers_of_one_table(tmp_path):
    errors = []

    def write():
        try:
            for _ in range(50):
                write_table(tmp_path / "grades.csv", [["a"], ["b"]])
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and os.listdir(tmp_path) == ["grades.csv"]


# The teacher's decisions


def student(name, *verdicts, **more):
    verdicts = verdicts + (passed("Right."),) * (len(RELEASE.exercises) - len(verdicts))
    return student_result(name, verdicts, RELEASE, **more)


@pytest.fixture
def class_(tmp_path):
    (tmp_path / "week4").mkdir()
    (tmp_path / "week4" / "release.json").write_text(json.dumps(RELEASE.as_dict()))
    (tmp_path / "handed_in").mkdir()
    return tmp_path


def give(folder, name, *sources):
    (folder / "handed_in" / f"{name}.ipynb").write_text(notebook("import torch", *sources), encoding="utf-8")


def graded(folder, **options):
    return grade_release(
        folder / "handed_in", RELEASE, folder / "out", GradingPolicy(), CONFIG, **{"say": lambda _: None, **options}
    )


@pytest.fixture
def one_to_look_at(class_, monkeypatch):
    """A class in which the first exercise of ada needs a look, and =bob has nothing to be looked at."""

    def all_of(tasks, config, **_):
        odd = Verdict(NEEDS_REVIEW, "Odd.")
        return (replace(student(task.student, *[odd] * (task.student == "ada")), digest=task.digest) for task in tasks)

    monkeypatch.setattr("course_grader.pipeline.grade_all", all_of)
    for name in ("ada", "=bob"):
        give(class_, name)
    return class_


def test_a_decision_is_kept_and_until_then_there_is_no_grade(one_to_look_at):
    out, first = one_to_look_at / "out", RELEASE.exercises[0]
    total = sum(POINTS.values())

    def points():
        return {row[0]: row[-1] for row in read_table(out / "grades.csv")[1:]}

    said = []
    graded(one_to_look_at, say=said.append)
    assert said[-1].startswith("1 have no grade yet: write the points into ")
    assert points() == {"'=bob": str(total), "ada": ""}
    assert read_table(out / "decisions.csv") == [
        ["student", "exercise", "points", "comment", "handed_in"],
        ["ada", first.name, "", "", ""],
    ]
    assert f"{total - first.points} of {total} points so far" in (out / page_path("ada")).read_text()
    comment = "Right, by another way."
    (out / "decisions.csv").write_text(
        f"student;exercise;points;comment\nada;{first.name};0,5;{comment}\n'=bob;merge_heads;0;Copied\n"
    )
    for _ in range(2):  # it survives each further run
        graded(one_to_look_at)
        assert points() == {"'=bob": str(total - POINTS["merge_heads"]), "ada": f"{total - first.points + 0.5:g}"}
        page = (out / page_path("ada")).read_text()
        assert comment in page and "so far" not in page
    assert ["ada", first.name, "0.5", comment] in [row[:4] for row in read_table(out / "decisions.csv")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ada,merge_heads,9,\n", "gives ada '9' points for 'merge_heads': give a number from 0 to 2"),
        ("ada,merge_heads,two,\n", "'two' points"),
        ("ada,merge_head,2,\n", "'merge_head': there is no such"),
        (None, "decisions.csv has the header x,y: it has to be student,exercise,points,comment"),
    ],
)
def test_a_decision_that_makes_no_sense_is_said_before_grading(one_to_look_at, text, said):
    (one_to_look_at / "out").mkdir()
    table = "x,y\n" if text is None else f"student,exercise,points,comment\n{text}"
    (one_to_look_at / "out" / "decisions.csv").write_text(table)
    with pytest.raises(ValueError) as refused:
        graded(one_to_look_at)
    assert said in str(refused.value) and not (one_to_look_at / "out" / "results").exists()


def test_pages_of_who_is_gone_are_removed(one_to_look_at):
    graded(one_to_look_at)
    own = one_to_look_at / "out" / "feedback" / "index.html"
    own.write_text("The teacher's own.")
    (one_to_look_at / "handed_in" / "=bob.ipynb").unlink()
    graded(one_to_look_at)
    assert {path.name for path in own.parent.iterdir()} == {"index.html", page_path("ada").partition("/")[2]}


# What pages say


def told(result):
    return {mark.verdict.name: mark.verdict for mark in result.marks}


@pytest.mark.slow
def test_a_notebook_that_was_not_handed_in_is_named_once(sandboxes):
    release = Release("week", "1", "0", (*RELEASED, *released_exercises(["05"])))
    result = grade_student(
        GradingTask("ada", (sheet("04_exercises.ipynb", "import torch", *RIGHT.values()),), (), release), *sandboxes
    )
    assert (result.remarks, result.flags) == (("The notebook of lesson 05 was not handed in.",), ())
    verdicts = {told(result)[exercise.name] for exercise in released_exercises(["05"])}
    assert {(verdict.state, verdict.message) for verdict in verdicts} == {(MISSING, "Its notebook was not handed in.")}


def test_a_cell_that_stopped_names_its_cause(sandboxes):
    code = "import einops_of_my_own\n" + RIGHT["merge_heads"]
    result = grade_student(
        GradingTask("ada", (sheet("04_exercises.ipynb", "import torch", code, "merge_heads(x)"),), (), RELEASE),
        *sandboxes,
    )
    cause = "stopped at `import einops_of_my_own` with ModuleNotFoundError: No module named 'einops_of_my_own'"
    assert cause in told(result)["merge_heads"].message
    assert result.remarks == (f"The cell of `merge_heads` {cause}.",)  # not what follows from it


def test_remarks_name_cells_by_what_a_student_sees(sandboxes):
    cells = ("import torch", "\n1 / 0", "files = !ls", "%%bash\nls", "%%time\n" + RIGHT["merge_heads"])
    result = grade_student(GradingTask("ada", (sheet("04_exercises.ipynb", *cells),), (), RELEASE), *sandboxes)
    assert result.remarks == (
        "The cell that begins with `1 / 0` stopped at `1 / 0` with ZeroDivisionError: division by zero.",
        "In the cell that begins with `files = !ls`, `files = !ls` is a Jupyter command and was left out.",
        "The cell that begins with `%%bash` was left out: only Python is run.",
    )


def test_a_timestamp_of_the_students_own_is_flagged_for_the_teacher(sandboxes):
    right = (sheet("04_exercises.ipynb", "import torch", *RIGHT.values()),)
    result = grade_student(GradingTask("ada", right, (OWN_TIMESTAMP,), RELEASE), *sandboxes)
    assert result.flags == ("it has a timestamp.txt of its own",) and OWN_TIMESTAMP in result.remarks


def test_a_line_is_shown_with_its_text_and_its_exercise(sandboxes):
    code = "def merge_heads(x):\n    y = x.transpose(1, 2)\n    return y.view(1, 2, 3, 4, 5)"
    result = grade_student(GradingTask("ada", (sheet("a.ipynb", "import torch", code),), (), RELEASE), *sandboxes)
    assert told(result)["merge_heads"].where == "line 3 of the cell of `merge_heads`: `return y.view(1, 2, 3, 4, 5)`"


def test_a_page_of_marks_asks_nobody_to_run_cells(sandboxes):
    code = "def merge_heads(x):\n    raise NotImplementedError"
    result = grade_student(GradingTask("ada", (sheet("a.ipynb", "import torch", code),), (), RELEASE), *sandboxes)
    assert told(result)["merge_heads"].message == "This isn't written yet, or not to its end."


def test_what_was_lost_is_flagged(sandboxes, class_):
    broken = SubmittedNotebook("b.ipynb", 0.0, False, None, "It is empty.")
    code = "import os\nos._exit(1)"
    result = grade_student(
        GradingTask(
            "ada", (sheet("04_exercises.ipynb", "import torch", RIGHT["merge_heads"], code), broken), (), RELEASE
        ),
        *sandboxes,
    )
    assert set(result.flags) == {"a file can't be read", "cells were left out", "cells are gone"}
    assert "cells were left out" in class_report([result], RELEASE)
    assert StudentResult.from_dict(json.loads(json.dumps(result.as_dict()))) == result


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone can't be changed here")
def test_one_time_zone_on_a_page(sandboxes, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        at = datetime(2026, 11, 20, 18).timestamp()
        task = GradingTask(
            "ada", (sheet("a.ipynb", RIGHT["merge_heads"], at=at),), (), RELEASE, GradingPolicy(due=at - 60)
        )
        result = grade_student(task, *sandboxes)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert result.submitted_at == "2026-11-20T18:00:00+05:30" and "18:00 UTC+05:30" in result.remarks[0]


# The command


def test_a_day_means_its_end():
    at = parse_due("2026-11-20", "--due")
    assert datetime.fromtimestamp(at).isoformat(timespec="seconds") == "2026-11-20T23:59:59"
    assert datetime.fromtimestamp(parse_due("2026-11-20T00:00", "--due")).hour == 0
    assert parse_due("2026-11-20T18:00+01:00", "--due") == datetime.fromisoformat("2026-11-20T18:00+01:00").timestamp()


@pytest.mark.parametrize("inside", ["", "graded", "a/b"])
def test_results_do_not_lie_among_the_submissions(class_, inside):
    give(class_, "ada", *RIGHT.values())
    with pytest.raises(ValueError, match="lies in the folder of submissions"):
        grade_release(class_ / "handed_in", RELEASE, class_ / "handed_in" / inside, GradingPolicy(), CONFIG)
    assert os.listdir(class_ / "handed_in") == ["ada.ipynb"]


@pytest.mark.slow
def test_the_command_echoes_the_due_time_and_warns_root(class_, isolation, monkeypatch, capsys):
    give(class_, "ada", *RIGHT.values())
    monkeypatch.setattr(command.os, "geteuid", lambda: 0)
    words = ["grade", str(class_ / "handed_in"), "--week", str(class_ / "week4"), "--out", str(class_ / "out")]
    assert main([*words, "--due", "2026-11-20"]) == 0
    said = capsys.readouterr().out
    assert "Due: Friday, 2026-11-20 23:59:59 " in said and "You are root" in said


def test_reading_has_a_limit(tmp_path, monkeypatch):
    (tmp_path / "eve").mkdir()
    for number in range(4):
        (tmp_path / "eve" / f"{number}.ipynb").write_text(notebook("x = 1"))
    now = iter(range(0, 1000, 6))
    monkeypatch.setattr(pipeline.time, "thread_time", lambda: next(now))
    task = pipeline.prepare_task(find_submissions(tmp_path)[0], RELEASE, GradingPolicy(), CONFIG, b"")
    assert [bool(notebook.notebook) for notebook in task.notebooks] == [True, False, False, False]
    assert "took too long" in task.notebooks[1].reason


def test_a_cell_is_parsed_once(monkeypatch):
    read = read_notebook(notebook("a = 1\nmerge_heads = 1", "b = 2\nmerge_heads = 2").encode())
    parsed = []
    monkeypatch.setattr(
        "course_grader.submissions.notebook.plain_python", lambda source: (source, parsed.append(source))
    )
    for cell in read.cells:
        assert cell.plain is cell.plain
    assert parsed == [cell.source for cell in read.cells]
