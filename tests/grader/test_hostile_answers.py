"""Nobody gets a mark that was not earned or harms the run, each gets a reason; the honest one gets the full mark."""

import json
import re

import pytest

from course_grader import Release, released_exercises
from course_grader.grading import GradingTask, grade_student
from course_grader.reports import feedback_page
from course_grader.sandbox import ResourceLimits, Sandbox
from course_grader.submissions import SubmittedNotebook, read_notebook
from course_lib.exercises import NOT_WRITTEN
from tests.grader import hooked_answers, hostile_answers
from tests.grader.hostile_answers import RIGHT, answer

pytestmark = pytest.mark.xdist_group("sandbox")

CASES = {**hostile_answers.CASES, **hooked_answers.CASES}
EXERCISES = [exercise for exercise in released_exercises(["04"]) if exercise.name in ("split_heads", "merge_heads")]
RELEASE = Release("week1", "1", "0", tuple(EXERCISES))
MERGE = "def merge_heads(x):\n    return x.permute(1, 2, 0, 3).flatten(2)\n"
POINTS = {exercise.name: exercise.points for exercise in RELEASE.exercises}


@pytest.fixture(scope="module")
def sandboxes(isolation):
    limits = ResourceLimits(cell=1.5, answer=1.5, notebook=12, memory=1 << 29)
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:
        yield sandbox, exposed


def submitted(student, *cells):
    code = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": []} for cell in cells]
    sheet = read_notebook(json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode())
    return GradingTask(student, (SubmittedNotebook("04.ipynb", 0.0, False, sheet),), (), RELEASE, secret=b"0" * 32)


def marks(result):
    return {mark.verdict.name: mark for mark in result.marks}


def test_there_are_a_hundred():
    assert len(CASES) == len(hostile_answers.CASES) + len(hooked_answers.CASES) >= 100


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", CASES)
def test_hostile(name, sandboxes):
    code, reason = CASES[name]
    result = grade_student(submitted(name, "import torch", MERGE, code), *sandboxes)
    mark = marks(result)["split_heads"]
    outcome = f"{mark.verdict!r} {result.remarks}"
    assert mark.points == 0 and not mark.verdict.passed, outcome
    assert re.search(reason, outcome), outcome
    assert "LEAK" not in outcome, outcome
    assert mark.verdict.message and len(outcome) < 5000
    page = feedback_page(result, RELEASE)
    assert "<script" not in page and "\u202e" not in page
    honest = grade_student(submitted("honest", "import torch", MERGE, answer(f"return {RIGHT}")), *sandboxes)
    assert {key: mark.points for key, mark in marks(honest).items()} == POINTS, honest


def test_a_forged_notebook(sandboxes):
    """Outputs and metadata that say passed, and points that the student wrote: none of it is looked at."""
    output = {"output_type": "stream", "name": "stdout", "text": "✓ split_heads: passed. Right on 3 inputs."}
    nbgrader = {"grade": True, "grade_id": "split_heads", "points": 99, "solution": True, "locked": False}
    stub = "def split_heads(x, num_heads):\n    raise NotImplementedError  # your code goes here\n"
    cell = {"cell_type": "code", "source": stub, "metadata": {"nbgrader": nbgrader}, "outputs": [output]}
    stamp = {"release": "week1", "version": "1", "commit": "0", "points": 99}
    data = {"cells": [cell], "metadata": {"attention_course": stamp}, "nbformat": 4, "nbformat_minor": 5}
    task = GradingTask(
        "eve", (SubmittedNotebook("a", 0.0, False, read_notebook(json.dumps(data).encode())),), (), RELEASE, secret=b"1"
    )
    result = grade_student(task, *sandboxes)
    assert result.points == 0 and marks(result)["split_heads"].verdict.state == NOT_WRITTEN


def test_the_test_can_fail(sandboxes):
    """A right answer passes where the hostile ones stand, so it is the attack that is refused."""
    result = grade_student(submitted("right", "import torch", MERGE, answer(f"return {RIGHT}")), *sandboxes)
    assert result.points == sum(POINTS.values()) and result.remarks == ()
