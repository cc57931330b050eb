"""The texts around the exercises: how many there are, how long they take, and what a message says of a first line."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from course_lib.exercises import ALL, SETS, check

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "sources"
NUMBERS = {"three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "eleven": 11}
MINUTES = {
    "twenty minutes": 20,
    "twenty-five minutes": 25,
    "half an hour": 30,
    "thirty-five minutes": 35,
    "forty minutes": 40,
    "fifty minutes": 50,
    "an hour and ten minutes": 70,
    "an hour and forty minutes": 100,
}


def stated_minutes(text):
    found = re.fullmatch(r"(\d+) minutes", text)
    return int(found[1]) if found else MINUTES[text]


@pytest.mark.parametrize("lesson", [lesson for lesson, one in SETS.items() if one.exercises])
def test_a_lesson_and_its_sheet_say_how_many_exercises_there_are_and_how_long_they_take(lesson):
    minutes = sum(exercise.minutes for exercise in SETS[lesson].exercises)
    said = re.search(r"\*\*It takes\*\* about ([\w -]+)\.", SETS[lesson].intro)
    assert said and abs(stated_minutes(said[1]) - minutes) <= 3, minutes
    (source,) = SOURCES.glob(f"{lesson}_*.py")
    practise = re.search(r"\*\*Practise:\*\* \[(\w+) exercises\]\([\w/.]+\), ([\w -]+)\.", source.read_text("utf-8"))
    assert practise and NUMBERS[practise[1]] == len(SETS[lesson].exercises)
    assert practise[2] == f"about {said[1]}"


def test_the_first_sheet_counts_its_pieces():
    assert "in six small pieces" in SETS["01"].intro


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("scores_by_head", "Scaled, as in the lesson."),
        ("causal_weights", "From scores, already scaled, to weights"),
        ("MultiHeadWithGaps", "causal"),
        ("MultiHeadWithGaps", "`hidden` is True"),
        ("mix_heads", "side by side, the first one first"),
        ("joined_mask", "`a[:, None]`"),
        ("padding_mask", "torch.arange(5)"),
        ("padding_mask", "torch.tensor(lengths)"),
        ("softmax_rows", "What is exp(2000)? And what changes if the same number is taken from all scores of a row?"),
        ("to_split", "`MultiHeadAttention(d_in, d_out, num_heads)` is causal and without bias"),
        ("to_split", "`q_proj.weight`"),
        ("to_split", "`out_proj.weight`"),
    ],
)
def test_a_prompt_says_what_is_given_and_wanted(name, words):
    assert words in ALL[name].prompt


def test_an_empty_stub_says_what_to_put_where():
    class MyMultiHeadAttention(nn.Module): ...

    assert check("MyMultiHeadAttention", MyMultiHeadAttention).message.startswith(
        "Write the class in place of the dots"
    )
    assert check("MultiHeadWithGaps", None).message.startswith("Fill in the gaps, `...`,")
    assert "`raise NotImplementedError`" in check("MultiHead", None).message


def test_axes_of_equal_size_are_named_in_the_order_of_the_argument():
    shown = repr(check("causal_weights", lambda s: s @ s[0]))
    assert "= (batch, query, key)." in shown and " or " not in shown
    stopped = repr(check("causal_weights", lambda s: s.masked_fill(torch.ones(3, 50).bool(), 0)))
    assert "= (batch, query, key)." in stopped and " or query" not in stopped


def test_a_list_is_not_told_the_answer_before_the_question():
    shown = repr(check("scores_of_token", lambda query, keys: [query @ key for key in keys]))
    assert "gives back a list; it should be a tensor" in shown
    assert "Which function makes one tensor of" in shown and "`torch.stack`" not in shown


@pytest.mark.slow
def test_transposed_weights_are_named_and_the_softmax_is_not():
    class Transposed(nn.Module):
        def __init__(self, d_in, d_out):
            super().__init__()
            self.q_proj = nn.Linear(d_in, d_out, bias=False)
            self.k_proj = nn.Linear(d_in, d_out, bias=False)
            self.v_proj = nn.Linear(d_in, d_out, bias=False)

        def forward(self, x):
            queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
            weights = (queries @ keys.transpose(1, 2) / queries.shape[-1] ** 0.5).softmax(dim=-1)
            return weights.transpose(1, 2) @ values

    verdict = check("SingleHeadWithGaps", Transposed)
    assert "whose weights are transposed" in verdict.message and verdict.mistake == "weights-transposed"
