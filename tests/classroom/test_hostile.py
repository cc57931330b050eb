"""Nobody gets a mark that was not earned or harms the run, each gets a reason; the honest one gets the full mark."""

import json
import re

import pytest

from course_lib.classroom.grading import Handed, Work, grade
from course_lib.classroom.handed_in.notebooks import read_notebook
from course_lib.classroom.papers.feedback import feedback_page
from course_lib.classroom.record import Record, asked
from course_lib.classroom.sandbox import Limits, Sandbox
from course_lib.exercises.verdict import NOT_WRITTEN

from .hostile import CASES, RIGHT, answer

pytestmark = pytest.mark.xdist_group("sandbox")

RECORD = Record("week1", "1", "0", tuple(one for one in asked(["04"]) if one.name in ("split_heads", "merge_heads")))
MERGE = "def merge_heads(x):\n    return x.transpose(1, 2).flatten(2)\n"
POINTS = {one.name: one.points for one in RECORD.exercises}


@pytest.fixture(scope="module")
def boxes(walls):
    limits = Limits(cell=1.5, answer=1.5, notebook=12, memory=1 << 29)
    with Sandbox(walls, limits) as sandbox, Sandbox(walls, limits, real_course=True) as clinic:
        yield sandbox, clinic


def handed_in(student, *cells):
    code = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": []} for cell in cells]
    sheet = read_notebook(json.dumps({"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode())
    return Work(student, (Handed("04.ipynb", 0.0, False, sheet),), (), RECORD, secret=b"0" * 32)


def marks(graded):
    return {mark.verdict.name: mark for mark in graded.marks}


def test_there_are_forty():
    assert len(CASES) >= 40


@pytest.mark.parametrize("name", CASES)
def test_hostile(name, boxes):
    code, reason = CASES[name]
    graded = grade(handed_in(name, "import torch", MERGE, code), *boxes)
    mark = marks(graded)["split_heads"]
    told = f"{mark.verdict!r} {graded.remarks}"
    assert mark.points == 0 and not mark.verdict.passed, told
    assert re.search(reason, told), told
    assert "LEAK" not in told, told
    assert mark.verdict.says and len(told) < 5000
    page = feedback_page(graded, RECORD)
    assert "<script" not in page and "\u202e" not in page
    honest = grade(handed_in("honest", "import torch", MERGE, answer(f"return {RIGHT}")), *boxes)
    assert {key: one.points for key, one in marks(honest).items()} == POINTS, honest


def test_a_forged_notebook(boxes):
    """Outputs and metadata that say passed, and points that the student wrote: none of it is looked at."""
    output = {"output_type": "stream", "name": "stdout", "text": "✓ split_heads: passed. Right on 3 inputs."}
    nbgrader = {"grade": True, "grade_id": "split_heads", "points": 99, "solution": True, "locked": False}
    stub = "def split_heads(x, num_heads):\n    raise NotImplementedError  # your code goes here\n"
    cell = {"cell_type": "code", "source": stub, "metadata": {"nbgrader": nbgrader}, "outputs": [output]}
    stamp = {"release": "week1", "version": "1", "commit": "0", "points": 99}
    data = {"cells": [cell], "metadata": {"attention_course": stamp}, "nbformat": 4, "nbformat_minor": 5}
    work = Work("eve", (Handed("a", 0.0, False, read_notebook(json.dumps(data).encode())),), (), RECORD, secret=b"1")
    graded = grade(work, *boxes)
    assert graded.points == 0 and marks(graded)["split_heads"].verdict.state == NOT_WRITTEN


def test_the_test_can_fail(boxes):
    """A right answer passes where the hostile ones stand, so it is the attack that is refused."""
    graded = grade(handed_in("right", "import torch", MERGE, answer(f"return {RIGHT}")), *boxes)
    assert graded.points == sum(POINTS.values()) and graded.remarks == ()
