"""What the review found: answers on which the notebook's check and grading disagreed, or that passed though wrong."""

import pytest
from torch import nn

from course_grader import Release, released_exercises
from course_grader.grading import GradingTask, grade_student
from course_grader.sandbox import ResourceLimits, Sandbox
from course_grader.submissions import SubmittedNotebook, read_notebook
from course_lib.exercises import ALL, InputGenerator
from course_lib.exercises.local_answer import LocalAnswer
from tests.grader.synthetic_class import notebook

pytestmark = pytest.mark.xdist_group("sandbox")

ATTENTION = "def attention(q, k, v):\n    "
SOFTMAX = "def softmax_rows(scores):\n    "
ANSWERS = {
    "float32 inside": (SOFTMAX + "return torch.softmax(scores.float(), dim=-1)", False),
    "the largest score of all rows": (SOFTMAX + "e = (scores - scores.max()).exp(); return e / e.sum(-1, True)", False),
    "minus the mean": (SOFTMAX + "e = (scores - scores.mean(-1, True)).exp(); return e / e.sum(-1, True)", False),
    "minus a constant": (SOFTMAX + "e = (scores - 2500).exp(); return e / e.sum(-1, True)", False),
    "right": (ATTENTION + "return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v", True),
    "scaled by the values' width": (ATTENTION + "return (q @ k.mT / v.shape[-1] ** 0.5).softmax(-1) @ v", False),
    "the shape of the queries": (
        ATTENTION + "return ((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v).view(q.shape)",
        False,
    ),
    "a square table only": (
        ATTENTION + "s = q @ k.mT / q.shape[-1] ** 0.5; assert s.shape[-1] == s.shape[-2]; return s.softmax(-1) @ v",
        False,
    ),
}


@pytest.fixture(scope="module")
def sandboxes(isolation):
    limits = ResourceLimits()
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:
        yield sandbox, exposed


@pytest.mark.one_in(9)
@pytest.mark.parametrize("answer", ANSWERS)
def test_practice_and_marks_agree(answer, sandboxes):
    code, right = ANSWERS[answer]
    name = code.split("(")[0].removeprefix("def ")
    release = Release("week1", "1", "0", tuple(each for each in released_exercises(["01"]) if each.name == name))
    sheet = SubmittedNotebook("01.ipynb", 0.0, False, read_notebook(notebook("import torch", code).encode()))
    marked = grade_student(GradingTask("ada", (sheet,), (), release, secret=b"1" * 32), *sandboxes)
    names = {"torch": __import__("torch"), "nn": nn}
    exec(code, names)
    practised = ALL[name].judge(LocalAnswer(names[name]), InputGenerator(0))
    assert [practised.passed, marked.marks[0].verdict.passed] == [right, right], (practised, marked.marks)
