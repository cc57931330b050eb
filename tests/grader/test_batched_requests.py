"""Requests are handed over together: who attacks that earns nothing, and honest students beside them lose nothing."""

import pytest

from course_grader.grading import GradingTask, grade_student
from course_grader.sandbox import ResourceLimits, Sandbox
from course_grader.submissions import SubmittedNotebook, read_notebook
from tests.grader.synthetic_class import POINTS, RELEASE, RIGHT, notebook

pytestmark = pytest.mark.xdist_group("sandbox")
FIRST = "split_heads"
CALLS = "calls = []\n"
BODY = "return x.unflatten(2, (num_heads, -1)).permute(1, 2, 0, 3)"
FORGE = """
import json, os, struct
def forge(message, times=1):
    text = json.dumps(message).encode()
    for end in range(3, 64):
        try: os.write(end, (struct.pack(">II", len(text), 0) + text) * times)
        except OSError: pass
"""


def split(*lines):
    return "\n    ".join(("def split_heads(x, num_heads):", *lines))


HOSTILE = {  # what it does -> (cells before the answers, the answer to split_heads)
    "ends Python in its second call": (
        CALLS, split("calls.append(1)", "if len(calls) == 2: import os; os._exit(0)", BODY),
    ),
    "kills its process": ("import os, signal", split("os.kill(os.getpid(), signal.SIGKILL)")),
    "never ends after an error": (CALLS, split("calls.append(1)", "if len(calls) == 1: 1 / 0", "while True: pass")),
    "is slow after an error": (CALLS, split("import time", "calls.append(1)", "time.sleep(len(calls) > 1)", "1 / 0")),
    "answers with 60 MB each time": ("", split("return torch.zeros(60 << 20, dtype=torch.uint8)")),
    "takes all memory": (CALLS, split("while True: calls.append(bytearray(1 << 28))")),
    "closes every file": ("import os", split("os.closerange(0, 64)", "return x")),
    "reads what was sent ahead": (
        "import os",
        split("for end in range(3, 64):", "    try: os.set_blocking(end, False); calls = os.read(end, 1 << 20)",
              "    except OSError: pass", "return x"),
    ),
    "answers ahead of the requests": (FORGE + "forge({'dict': [['result', 1], ['changed', {'list': []}]]}, 200)", None),
    "answers in between": (
        FORGE, split("forge({'dict': [['result', True], ['changed', {'list': []}]]}, 20)", "return x"),
    ),
    "puts its own names in the place of the guest's": (
        "import sys\nfor name, module in list(sys.modules.items()):\n"
        "    if name.split('.')[0] in ('guest', 'answering') and module:\n"
        "        for one in ('call_function', 'call_backward', '_changed', '_same', 'pack'):\n"
        "            vars(module)[one] = lambda *a, **k: (True, [])\n",
        split("return x"),
    ),
    "puts its own names in the place of torch's": (
        "torch.Tensor.detach = torch.Tensor.clone = torch.empty = torch.equal = lambda *a, **k: True", split("return x")
    ),
}  # fmt: skip
ODD = {  # what an honest student may do as well -> cells, among right answers
    "an endless loop in the third of seven cells": ("x = 1", "y = 2", "while True: pass", "z = 3"),
    "a flood of prints": ("for number in range(200_000): print(number, 'x' * 50)",),
    "threads left behind": (
        "import threading, time\n"
        "for _ in range(20): threading.Thread(target=lambda: [time.sleep(0.01) for _ in range(10**6)]).start()",
    ),
    "a cell that ends Python": ("import os\nos._exit(1)",),
    "names of the judge's": ("call_function = pack = send = changed = Called = None\nresult = seed = arguments = 7",),
}


@pytest.fixture(scope="module")
def sandboxes(isolation):
    limits = ResourceLimits(cell=3, answer=3, notebook=20)
    with Sandbox(isolation, limits) as sandbox, Sandbox(isolation, limits, expose_course=True) as exposed:
        yield sandbox, exposed


def passed(sandboxes, *cells):
    sheet = SubmittedNotebook("0.ipynb", 0.0, False, read_notebook(notebook("import torch", *cells).encode()))
    graded = grade_student(GradingTask("a", (sheet,), (), RELEASE, secret=b"0" * 32), *sandboxes)
    assert not any("Grading itself failed" in mark.verdict.message for mark in graded.marks)
    return {name for name, mark in zip(POINTS, graded.marks, strict=True) if mark.verdict.passed}


@pytest.mark.slow
@pytest.mark.one_in(6)
@pytest.mark.parametrize("attack", HOSTILE)
def test_who_attacks_earns_nothing_by_it(attack, sandboxes):
    before, answer = HOSTILE[attack]
    answers = {**RIGHT, FIRST: answer or split("return x")}
    assert FIRST not in passed(sandboxes, before, *answers.values())
    assert passed(sandboxes, *RIGHT.values()) == {*RIGHT}, "the honest student beside it"


OWN_LOSS = "reads what was sent ahead", "closes every file", "answers ahead of the requests", "answers in between"
WHOLE = [name for name in HOSTILE if name not in OWN_LOSS and "place of" not in name]


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize("attack", WHOLE)
def test_one_wrong_answer_costs_no_other(attack, sandboxes):
    """What a call leaves behind when nobody waits for the rest: the other exercises keep their points."""
    before, answer = HOSTILE[attack]
    assert passed(sandboxes, before, *{**RIGHT, FIRST: answer}.values()) == {*RIGHT} - {FIRST}


@pytest.mark.slow
@pytest.mark.one_in(9)
@pytest.mark.parametrize("odd", ODD)
def test_honest_but_odd(odd, sandboxes):
    assert passed(sandboxes, *ODD[odd], *RIGHT.values()) == {*RIGHT}


STAR = "from torch import *"


@pytest.mark.slow
def test_a_star_import_below_an_answer_takes_nothing_away(sandboxes):
    """`number_at` uses Python's `sum`; its check had passed before torch's came, and its points stay."""
    assert passed(sandboxes, *RIGHT.values(), STAR) == {*RIGHT}


@pytest.mark.slow
def test_a_star_import_above_an_answer_is_what_its_author_saw(sandboxes):
    """In the notebook the same line stops with the same words, so that nobody is surprised by the mark."""
    names = {}
    exec(f"{STAR}\n{RIGHT['number_at']}", names)
    with pytest.raises(TypeError, match="argument 'input'"):
        names["number_at"]([1, 2], (1,), (1,))
    assert passed(sandboxes, STAR, *RIGHT.values()) == {*RIGHT} - {"number_at"}


@pytest.mark.slow
def test_a_star_import_is_there_for_the_cells_below(sandboxes):
    wide = "def merge_heads(x):\n    return cat([*x.permute(1, 2, 0, 3).unbind(2)], 2) + 0 * sum(x)"
    assert passed(sandboxes, STAR, *{**RIGHT, "merge_heads": wide}.values()) == {*RIGHT} - {"number_at"}
