"""Oral questions: three for each student whose code runs, each answer true when the code is run again."""

import re

import pytest
import torch
from torch import nn

from course_grader import Release, WorkerConfig, released_exercises
from course_grader.oral import OralSheet, oral_page, oral_sheets
from course_grader.sandbox import ResourceLimits, Sandbox
from course_lib.about import version
from course_lib.command import main
from course_lib.exercises import ALL, FromSource, InputGenerator
from course_lib.exercises.module_exercise import ModuleExercise
from course_lib.mutations import built
from course_lib.oral import OralQuestion, is_about, oral_questions
from tests.grader.synthetic_class import notebook

ONCE = "write_greedily"  # what it is called with can be called only once, so nothing is asked about it
CLASSES = [name for name, exercise in ALL.items() if isinstance(exercise, ModuleExercise) and not exercise.cache]
HEAD = """\
class Attention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.d = num_heads, d_out // num_heads
        self.q, self.k, self.v = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (p(x).view(b, t, self.num_heads, self.d).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = q @ k.transpose(2, 3) / self.d**0.5
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
        weights = scores.softmax(-1)
        merged = (weights @ v).transpose(1, 2).reshape(b, t, -1)
        return merged
"""


def run(code, arguments):
    torch.manual_seed(1)
    result = code(*arguments[:-1]).eval()(arguments[-1])
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", CLASSES)
def test_every_answer_holds_when_the_code_runs_again(name):
    exercise = ALL[name]
    arguments = exercise.example(InputGenerator(5))
    before = run(exercise.solution, arguments)
    for seed in range(3):
        line, change, *planted = asked = oral_questions(exercise.solution, arguments, seed=seed)
        assert all(is_about(question, line.code, arguments) for question in asked)
        assert not any(is_about(question._replace(text="What is 1 + 1?"), line.code, arguments) for question in asked)
        assert not any(is_about(question._replace(answer="It's 2."), line.code, arguments) for question in asked)
        assert re.match(r"\(\d+(, \d+)*,?\); ", line.answer)
        assert f"and called with a tensor of shape {tuple(arguments[-1].shape)}. Which shape" in line.text
        assert all(f" = {size}" in line.text for size in arguments[:-1])
        number, new = re.match(r"Line (\d+) becomes `(.+)`\.", change.text).groups()
        lines = change.code.splitlines()
        indent = len(lines[int(number) - 1]) - len(lines[int(number) - 1].lstrip())
        lines[int(number) - 1] = " " * indent + new
        _holds(change.answer, before, "\n".join(lines), exercise.solution, arguments)
        for question in planted:  # there is none where only one mistake can be made
            at, text = re.match(r"Line (\d+), `(.+?)`\. ", question.answer).groups()
            assert question.code.splitlines()[int(at) - 1].strip() == text
            _holds(question.answer, before, question.code, exercise.solution, arguments)


def _holds(answer, before, edited, solution, arguments):
    """Run the changed code, and compare what happens with what the answer says."""
    try:
        after = run(built(edited, solution), arguments)
    except Exception as error:  # as the answer must say
        assert f"It stops: {type(error).__name__}" in answer
        return
    if after.shape != before.shape:
        assert f"its result is {tuple(after.shape)} in place of {tuple(before.shape)}" in answer
        return
    same = torch.isclose(before, after, equal_nan=True)
    changed = [row for row in range(before.shape[-2]) if not same[..., row, :].all()]
    said = re.search(r"The rows that change: (.+) \(of", answer)[1]
    assert said == ("all of them" if len(changed) == before.shape[-2] else ", ".join(map(str, changed)))


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", [name for name in ALL if name not in (*CLASSES, ONCE)])
def test_what_is_asked_of_a_function_is_recognised(name):
    exercise = ALL[name]
    arguments = exercise.example(InputGenerator(5)) or ()
    built = [each.build() if isinstance(each, FromSource) else each for each in arguments]
    for question in (asked := oral_questions(exercise.solution, built) if built else []):
        assert is_about(question, asked[0].code, built) and " at 0x" not in question.text


class Restless(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_in, d_out) for _ in range(3))

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT + torch.randn(x.shape[1])
        return scores.softmax(dim=-1) @ self.v(x)


def test_nothing_is_asked_about_a_change_where_two_runs_differ():
    (only,) = oral_questions(Restless, [7, 12, torch.randn(2, 5, 7)])
    assert "Which shape has the result of line" in only.text


def test_code_without_attention_is_asked_about_its_lines():
    (only,) = oral_questions(ALL["merge_heads"].solution, [torch.randn(3, 2, 4, 5)])
    assert "Which shape has the result of line" in only.text
    with pytest.raises(ValueError, match="the source of spoken can't be read: define it in a file"):
        space = {}
        exec("def spoken(x): return x", space)
        oral_questions(space["spoken"], [torch.ones(2)])


@pytest.mark.xdist_group("sandbox")
def test_a_class_gets_its_sheets(tmp_path, isolation):
    exercise = ALL["MultiHeadFromMemory"]
    right = HEAD.replace("class Attention", "class MultiHeadFromMemory")
    handed_in = tmp_path / "handed_in"
    for student, source in {
        "ann": right,
        "bob": "class MultiHeadFromMemory(nn.Module):\n    1 / 0",
        "eve": "import os",
        "mallory": "import course_lib.oral as oral\n"
        "oral.oral_questions = lambda *_, **__: [('What is 1 + 1?', '2', 'x = 1')] * 3\n" + right,
    }.items():
        (handed_in / student).mkdir(parents=True)
        text = notebook("import torch\nfrom torch import nn", source)
        (handed_in / student / "17_exercises.ipynb").write_text(text, encoding="utf-8")
    release = Release("week17", version(), "0", tuple(e for e in released_exercises(["17"]) if e.name == exercise.name))
    with Sandbox(isolation, ResourceLimits(), expose_course=True) as sandbox:
        config = WorkerConfig(ResourceLimits(), course=version())
        ann, bob, eve, mallory = oral_sheets(handed_in, release, config, sandbox)
    assert (ann.student, ann.exercise, len(ann.questions)) == ("ann", exercise.name, 3)
    assert not bob.questions and not eve.questions and not mallory.questions
    page = oral_page([ann, bob, eve], release)
    assert page.count("<details>") == 3 and "No answer of this student runs" in page
    assert "class MultiHeadFromMemory(nn.Module):" in page


def test_what_a_student_wrote_is_escaped():
    shown = OralQuestion("<script>", "`<b>`", "x = '<i>'")
    page = oral_page([OralSheet("<ann>", "MultiHead", (shown,))], Release("week5", "1", "0", ()))
    assert "<script>" not in page and "<b>" not in page and "<i>" not in page and "&lt;ann&gt;" in page


def test_the_command_says_what_is_missing(tmp_path, capsys):
    assert main(["oral", str(tmp_path), "--week", "none", "--out", str(tmp_path / "oral.html")]) == 2
    assert "week is 'none', and there is no" in capsys.readouterr().err
