"""What beginners are told: of over 300 wrong answers nearly all get the mistake, or shapes and a question."""

import re
from collections import Counter

import pytest
import torch

from course_lib.exercises import ALL, InputGenerator, LocalAnswer
from course_lib.exercises.learner_error import LearnerError
from course_lib.exercises.verdict import stopped

from . import wrong_classes, wrong_functions

WRONG = [
    (name, answer)
    for table in (wrong_functions, wrong_classes)
    for name, answers in table.WRONG.items()
    for answer in answers
]
VAGUE = "What does each name on this line hold"
EXACT = re.compile(r"\(\d+,[\d, ]*\)|The call: |is missing\?")
# A line of the course, of a library or of the check, or an object's own text.
ASTRAY = re.compile(r"core\.py|checks\.py|<made>|site-packages|Traceback|requires_grad=True")


def kind(verdict):
    """Return how much a verdict says: the mistake, exact shapes or arguments, an error's meaning, or nothing more."""
    shown = repr(verdict)
    if verdict.mistake or "Your result equals" in shown:
        return "named"
    if VAGUE in shown or not verdict.hint:
        return "raw"
    return "exact" if EXACT.search(shown) else "meaning"


@pytest.mark.slow
def test_nearly_all_wrong_answers_are_led_on_and_none_astray():
    verdicts = [(name, ALL[name].judge(LocalAnswer(answer), InputGenerator(0))) for name, answer in WRONG]
    kinds = Counter(kind(verdict) for _, verdict in verdicts)
    assert len(verdicts) >= 300 and all(verdict.state == "not passed yet" for _, verdict in verdicts)
    assert kinds["named"] + kinds["exact"] >= 0.85 * len(verdicts), kinds
    assert kinds["raw"] <= 0.05 * len(verdicts), kinds
    for name, verdict in verdicts:
        shown = repr(verdict)
        assert not ASTRAY.search(shown), shown
        assert verdict.lesson and verdict.lesson <= ALL[name].lesson, shown
        assert "dtype=x.dtype" not in shown or "dtype" in verdict.message, shown


def test_t_is_named_only_where_its_operand_has_more_than_two_axes():
    def ablate_head(contexts, w_o, head):
        merged = contexts[:, 1:].transpose(1, 2).flatten(2)
        return merged @ w_o.T

    def multi_query(queries, keys, values):
        return queries @ keys.T

    two, three = (
        repr(ALL[code.__name__].judge(LocalAnswer(code), InputGenerator(0))) for code in (ablate_head, multi_query)
    )
    assert "reverses the order" not in two and "reverses the order" in three


def test_angles_in_float32_need_no_note():
    def rotary_table(num_tokens, head_dim, base):
        speed = base ** (-2 * torch.arange(head_dim // 2) / head_dim)
        angle = torch.arange(num_tokens)[:, None] * speed
        return angle.cos(), angle.sin()

    def scores_by_distance(query, key, num_distances, base):
        cos, sin = rotary_table(num_distances, len(query), base)
        a, b = query.chunk(2)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1) @ key

    for code in (rotary_table, scores_by_distance):
        verdict = ALL[code.__name__].judge(LocalAnswer(code), InputGenerator(0))
        assert verdict.passed and not verdict.evidence, verdict


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("this", "it had not finished after 10 seconds", "Which loop may never end?"),
        ("NotInGrading", "`course_lib.attention.X` of the course is not there in grading", "Which lines of your own"),
        ("FileNotFoundError", "[Errno 2] No such file or directory: 'solution.py'", "follows from the arguments"),
        ("RuntimeError", "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes", "Which sizes"),
    ],
)
def test_what_stops_a_student_in_grading_has_a_question_of_its_own(kind, text, said):
    _, question = LearnerError({"kind": kind, "message": text}).explain({})
    assert said in question, question


@pytest.mark.parametrize(
    ("line", "is_gap"),
    [
        ("self.k_proj = nn.Linear(d_in, ..., bias=False)", True),
        ("weights = scores.softmax(dim=...)", True),
        ("per_head = (batch, num_tokens, ..., ...)", True),
        ("return ...", True),
        ("keys[..., 0].view(*shape[:2])", False),
        ("torch.einsum(queries, [..., 0, 1], keys, [..., 2, 1])", False),
        ("scores = queries @ keys", False),
        ("keys = keys.view(", False),
    ],
)
def test_an_open_gap_is_seen_whatever_the_release_of_pytorch_says_of_it(line, is_gap):
    said = "empty() received an invalid combination of arguments - got (tuple, dtype=NoneType)"  # PyTorch 2.6
    report = {"kind": "TypeError", "message": said, "text": line}
    verdict = stopped(LearnerError(report), ["Other"], {})
    assert ("A gap, `...`, is still open" in verdict.message) == is_gap, verdict
