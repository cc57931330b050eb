"""What two reviews found: wrong answers that passed, right ones that were refused, and messages that led astray."""

import pytest

from course_lib.exercises.catalogue import ALL
from course_lib.exercises.checking import check
from course_lib.exercises.input_generator import InputGenerator
from course_lib.exercises.local_answer import LocalAnswer

from . import findings_messages, findings_right, findings_slips, findings_wrong

MESSAGES = [*findings_messages.MESSAGES, *findings_slips.MESSAGES]
SEEDS = range(0, 20, 5)


def cases(answers):
    return [
        pytest.param(name, one, id=f"{name}-{at}") for name, found in answers.items() for at, one in enumerate(found)
    ]


def judged(name, answer, seed):
    return ALL[name].judge(LocalAnswer(answer), InputGenerator(seed))


@pytest.mark.one_in(32)
@pytest.mark.parametrize(("name", "answer"), cases(findings_wrong.WRONG))
def test_a_wrong_answer_fails_with_every_seed(name, answer):
    assert check(name, answer).state == "not passed yet"  # on seed 0
    for seed in SEEDS[1:]:
        assert judged(name, answer, seed).state == "not passed yet", seed


@pytest.mark.one_in(18)
@pytest.mark.parametrize(("name", "answer"), cases(findings_right.RIGHT))
def test_a_right_answer_passes_with_every_seed(name, answer):
    for seed in SEEDS:
        verdict = judged(name, answer, seed)
        assert verdict.passed, verdict


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("name", "answer", "said", "unsaid"),
    MESSAGES,
    ids=[f"{one[0]}-{at}" for at, one in enumerate(MESSAGES)],
)
def test_a_message_says_what_is_wrong_and_nothing_else(name, answer, said, unsaid):
    shown = repr(check(name, answer))
    for words in said:
        assert words in shown, shown
    for words in unsaid:
        assert words not in shown, shown


def test_a_hint_is_right_as_written():
    assert "torch.tensor(lengths)[:, None]" in ALL["padding_mask"].hints[1]
