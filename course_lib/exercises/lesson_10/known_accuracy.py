"""Count right answers where they can be known."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def known_accuracy(logits, tokens, known):
    # (batch, token, letter), (batch, token), (batch, token) of bool -> number
    right = logits[:, :-1].argmax(dim=-1) == tokens[:, 1:]  # t predicts t + 1
    return right[known[:, 1:]].float().mean()


def _often_right(logits: Tensor, tokens: Tensor) -> Tensor:
    following = torch.nn.functional.one_hot(tokens[:, 1:], logits.shape[2])
    return logits + 1.5 * torch.nn.functional.pad(following, (0, 0, 0, 1))


def _from_one_on(rng: InputGenerator, batch: int, token: int) -> Tensor:
    first = 1 + rng.integers(token - 2, batch, 1)
    first[:2, 0] = torch.tensor([1, token - 2])  # so that samples have different numbers of known tokens
    return torch.arange(token) >= first


def _in_between(batch: int, token: int) -> Tensor:
    known = (torch.arange(token) + torch.arange(batch)[:, None]) % 3 == 1
    known[:, 0] = False
    return known


EXERCISE = FunctionExercise(
    known_accuracy,
    title="Count right answers",
    difficulty=2,
    minutes=5,
    prompt=(
        "`logits` (batch, token, letter) are a model's scores for the *next* token: those at position t predict token "
        "t + 1. `known` is True for each token that could be predicted. Give back the share of these tokens that the "
        "largest logit gets right, over all samples together, as a number or a tensor with one element. Token 0 is "
        "never predicted, so its `known` is False."
    ),
    hints=(
        "Which position predicts token 5? Bring the answers and the tokens to the same length first.",
        "The answers of all positions but the last belong to all tokens but the first, and `known` belongs to tokens.",
        "`right = logits[:, :-1].argmax(-1) == tokens[:, 1:]`, then the mean of `right[known[:, 1:]]` as floats.",
    ),
    inputs={
        "tokens": lambda rng, batch, token, letter: rng.integers(letter, batch, token),
        "logits": _often_right,
        "known": _from_one_on,
    },
    sizes=(5, 12),
    also=({"batch": 1, "known": _in_between}, {"known": _in_between}) * 2,
    arguments={"logits": "batch token letter", "tokens": "batch token", "known": "batch token"},
    fixed="token letter",
    own_dtype=True,
    extract=lambda result, *_: torch.as_tensor(result, dtype=torch.float64),
    wrong="""
[:, :-1] => [:] && [:, 1:] => [:]
    a share in which position t has to name token t itself: its logits are about token t + 1
    ? Which position predicts token 5?
tokens[:, 1:] => tokens[:, :-1] && logits[:, :-1] => logits[:, 1:]
    a share in which position t has to name token t - 1
    ? Which position predicts token 5?
known[:, 1:] => known[:, :-1]
    a share over the positions that are known, not over those whose next token is known
    ? Is `known[:, t]` about token t or about token t + 1?
right[known[:, 1:]] => right
    the share of all tokens, known or not
    ? Which tokens could be predicted?
1 - result
    the share of wrong ones; that of right ones is asked for
    ? What does your comparison count, equal letters or unequal ones?
100 * result
    the share in percent
    ? How large can a share be?
.float().mean => .sum
    how many are right; the share is asked for
    ? By what do you divide?
right[known[:, 1:]] => (right & known[:, 1:])
    the right ones divided by the number of all tokens, known or not
    ? By what do you divide?
right[known[:, 1:]].float().mean() => ((right & known[:, 1:]).sum(1) / known[:, 1:].sum(1)).mean()
    a mean of the samples' shares: a sample with few known tokens counts as much as one with many
    ? How many tokens count, over all samples?
""",
)
