"""From what was handed in to grades, feedback and a report, with the command as a teacher types it."""

import csv
import json
import os
import re
from dataclasses import replace

import pytest

from course_grader import (
    GradingPolicy,
    Mark,
    StudentResult,
    WorkerConfig,
    grade_release,
    pipeline,
    worker,
)
from course_grader.grading import GradingTask, ungraded
from course_grader.manifest import find_manifest, read_manifest
from course_grader.pipeline import ResultStore
from course_grader.sandbox import ResourceLimits
from course_grader.submissions import Notebook, SubmittedNotebook
from course_grader.worker import grade_in_worker
from course_lib.about import version
from course_lib.command import main
from course_lib.exercises import NEEDS_REVIEW, passed
from tests.grader.synthetic_class import ANSWERS, POINTS, RELEASE, notebook

pytestmark = pytest.mark.xdist_group("sandbox")
RIGHT = notebook("import torch", *(answers[0][0] for answers in ANSWERS.values()))
WRONG = notebook("import torch", *(answers[-1][0] for answers in ANSWERS.values()))


@pytest.fixture
def class_(tmp_path):
    (tmp_path / "week4").mkdir()
    (tmp_path / "week4" / "release.json").write_text(json.dumps(RELEASE.as_dict()))
    (tmp_path / "handed_in").mkdir()
    return tmp_path


def give(folder, student, text, at=1e9):
    path = folder / "handed_in" / f"{student}.ipynb"
    path.write_text(text, encoding="utf-8")
    os.utime(path, (at, at))


def rows(path):
    with open(path, encoding="utf-8-sig", newline="") as table:
        return list(csv.DictReader(table))


@pytest.fixture
def graded_here(monkeypatch):
    """Grade in this process, without Dask: the students who were graded are listed."""
    asked_for = []

    def one(task, config):
        asked_for.append(task.student)
        marks = tuple(
            Mark(passed("Right.").of(x.name, x.lesson), x.title, x.points, x.points) for x in RELEASE.exercises
        )
        return StudentResult(task.student, marks, digest=task.digest)

    monkeypatch.setattr(pipeline, "grade_all", lambda tasks, config, **_: (one(task, config) for task in tasks))
    return asked_for


def graded(folder, policy=None, **options):
    return grade_release(
        folder / "handed_in",
        RELEASE,
        folder / "out",
        policy or GradingPolicy(),
        WorkerConfig(ResourceLimits()),
        say=lambda _: None,
        **options,
    )


def test_the_command_from_notebooks_to_pages(class_, isolation, capsys):
    give(class_, "ada", RIGHT)
    give(class_, "bob", WRONG, at=2e9)
    give(class_, "eve", "not a notebook")
    (class_ / "roster.csv").write_text(
        "Student,ID,SIS User ID,SIS Login ID,Section\nAda,1,,ada,A\nBob,2,,bob,A\nCy,3,,cy,A\n"
    )
    words = ["grade", str(class_ / "handed_in"), "--week", "week4", "--out", str(class_ / "out"), "--workers", "1"]
    words += ["--due", "2030-01-01T00:00+00:00", "--roster", str(class_ / "roster.csv")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert (
        "Students' code is isolated by: bubblewrap." in said
        and "3 students; 1 with something late; 1 need your look" in said
    )
    total = f"{sum(POINTS.values())}"
    assert [row["week4"] for row in rows(class_ / "out" / "grades.csv")] == [total, "0", ""]
    details = {row["student"]: row for row in rows(class_ / "out" / "exercises.csv")}
    assert details["bob"]["late"] == "yes" and "can't be read" in details["eve"]["remarks"]
    page = (class_ / "out" / details["bob"]["feedback"]).read_text(encoding="utf-8")
    assert "merge_heads" in page and "ZeroDivisionError" in page
    report = (class_ / "out" / "report.html").read_text(encoding="utf-8")
    assert "split-without-transpose" in report and "<img" in report


@pytest.mark.slow
def test_nothing_is_graded_twice_but_what_changed(class_, graded_here):
    for student in ("ada", "bob", "cy"):
        give(class_, student, RIGHT)
    assert [result.student for result in graded(class_)] == ["ada", "bob", "cy"]
    graded(class_)
    assert graded_here == ["ada", "bob", "cy"]
    give(class_, "bob", WRONG)
    graded(class_)
    assert graded_here[3:] == ["bob"]
    graded(class_, GradingPolicy(due=1.0))  # other rules, other marks
    assert graded_here[4:] == ["ada", "bob", "cy"]
    damaged = next((class_ / "out" / "results").glob("cy-*.json"))
    damaged.write_text(damaged.read_text()[:100])
    graded(class_, GradingPolicy(due=1.0))
    assert graded_here[7:] == ["cy"]


def test_a_result_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    store = ResultStore(tmp_path)
    task = GradingTask("ada", (), (), RELEASE, digest="d")
    store.write(ungraded(task, "first"))
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("the disk is full")))
    with pytest.raises(OSError, match="the disk is full"):
        store.write(ungraded(task, "second"))
    assert store.read("ada", "d").remarks == ("first",)
    assert [path.name for path in (tmp_path / "results").iterdir() if path.name.startswith(".")] == []


def test_the_secret_stays_and_only_the_teacher_reads_it(tmp_path):
    store = ResultStore(tmp_path)
    secret = store.secret()
    assert len(secret) == 32 and ResultStore(tmp_path).secret() == secret
    assert (tmp_path / "results" / "secret.txt").stat().st_mode & 0o077 == 0
    one, other = (
        GradingTask(student, (), (), RELEASE, secret=secret).seed("split_heads", Notebook(()))
        for student in ("ada", "bob")
    )
    assert one != other != replace(GradingTask("bob", (), (), RELEASE), secret=b"x").seed("split_heads", Notebook(()))


def test_a_mistake_of_ours_asks_for_a_look(monkeypatch):
    monkeypatch.setattr(worker, "sandboxes", lambda config: (None, None))
    monkeypatch.setattr(worker, "grade_student", lambda *_: 1 / 0)
    found = grade_in_worker(GradingTask("ada", (), (), RELEASE), WorkerConfig(ResourceLimits(), course=version()))
    assert {mark.verdict.state for mark in found.marks} == {NEEDS_REVIEW} and found.points == 0
    assert "Grading itself failed here (ZeroDivisionError)" in found.remarks[0]


def test_workers_with_another_version_are_refused():
    with pytest.raises(
        ValueError,
        match=r"A worker has version .* of the course, but you have 9\.9: install your version on that worker\.",
    ):
        grade_in_worker(GradingTask("ada", (), (), RELEASE), WorkerConfig(ResourceLimits(), course="9.9"))


def test_late_points():
    with pytest.raises(
        ValueError, match=r"late_factor is 1\.5: take a number from 0 \(no points\) to 1 \(all of them\)\."
    ):
        GradingPolicy(late_factor=1.5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["handed_in", "--week", "week5"],
            r"there is no week5/release\.json, nor one in a folder week5 beside handed_in",
        ),
        (["nowhere", "--week", "week4"], r"folder is nowhere, which doesn't exist"),
        (
            ["handed_in", "--week", "week4", "--due", "soon"],
            r"--due is 'soon', which is not a time: write 2026-11-20, 2026-11-20T18:00",
        ),
        (["handed_in", "--week", "week4", "--late-factor", "2"], r"late_factor is 2\.0: take a number from 0"),
        (["handed_in", "--week", "week4", "--seconds", "0"], r"--seconds is 0\.0: take a number above 0\."),
        (["handed_in", "--week", "week4"], r"nobody has handed anything in there"),
        (["handed_in", "--week", "handed_in"], r"there is no handed_in/release\.json"),
    ],
)
def test_what_the_command_refuses(words, said, class_, monkeypatch, capsys):
    monkeypatch.chdir(class_)
    assert main(["grade", *words, "--out", "out"]) == 2
    assert re.search(said, capsys.readouterr().err)


def test_without_a_sandbox_it_refuses(class_, monkeypatch, capsys):
    give(class_, "ada", RIGHT)
    monkeypatch.setenv("PATH", "")
    words = ["grade", str(class_ / "handed_in"), "--week", "week4", "--out", str(class_ / "out")]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "Install bubblewrap" in said and "--unsafe" in said and "your files, your network and your passwords" in said
    assert not (class_ / "out").exists()


def test_manifests(class_):
    path = class_ / "week4" / "release.json"
    for week in ("week4", str(class_ / "week4"), str(path)):
        assert read_manifest(find_manifest(week, class_ / "handed_in")) == RELEASE


FIRST = RELEASE.as_dict()["exercises"][0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("{", r"can't be read \(Expecting"),
        ("{}", "lacks what a release has: make it with `course release`"),
        ("[]", "lacks what a release has: make it with `course release`"),
        ([], r"has no exercises: make it with `course release`\."),
        ([{"name": FIRST["name"]}], "lacks what a release has"),
        ([FIRST | {"name": "cut"}], r"has the exercise 'cut' that version \S+ of the course doesn't know: "
                                    "correct its name, remove it, or grade with version 1 of the course"),
        ([FIRST, FIRST], f"has the exercise '{FIRST['name']}' 2 times: remove all but one"),
        ([FIRST | {"points": -3}], f"has the exercise '{FIRST['name']}' with points -3: give a number from 0 up"),
        ([FIRST | {"points": "ten"}], "with points 'ten': give a number from 0 up, without quotes"),
        ([FIRST | {"points": True}], "with points True"),
        ([FIRST | {"points": float("nan")}], "with points nan"),
        ([FIRST | {"points": float("inf")}], "with points inf"),
        ([FIRST | {"points": None}], "with points None"),
    ],
)  # fmt: skip
def test_records_that_cannot_be_graded_with(class_, change, says):
    path = class_ / "week4" / "release.json"
    whole = {**RELEASE.as_dict(), "exercises": change}
    path.write_text(change if isinstance(change, str) else json.dumps(whole))
    with pytest.raises(ValueError, match=says):
        read_manifest(path)


def test_the_version_in_use_is_no_remedy(class_):
    path = class_ / "week4" / "release.json"
    path.write_text(json.dumps({**RELEASE.as_dict(), "version": version(), "exercises": [FIRST | {"name": "cut"}]}))
    with pytest.raises(ValueError, match=r"doesn't know: correct its name, remove it\."):
        read_manifest(path)


def test_the_release_is_no_student(class_, capsys):
    give(class_, "ada", RIGHT)
    assert main(["grade", str(class_), "--week", str(class_ / "week4"), "--out", str(class_.parent / "out")]) == 2
    assert "as if a student had handed it in: give the folder that holds only what" in capsys.readouterr().err


def test_marks_survive_a_file(tmp_path):
    result = ungraded(
        GradingTask("ada", (SubmittedNotebook("a", 0.0, False, None, "why"),), ("said",), RELEASE, digest="d"),
        "because",
    )
    assert StudentResult.from_dict(json.loads(json.dumps(result.as_dict()))) == result
