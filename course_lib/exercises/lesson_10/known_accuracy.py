"""Count right answers where they can be known."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def known_accuracy(logits, tokens, known):
    # (batch, token, letter), (batch, token), (batch, token) of bool -> number
    right = logits[:, :-1].argmax(dim=-1) == tokens[:, 1:]  # t predicts t + 1
    return right[known[:, 1:]].float().mean()


def _share(right: Tensor, chosen: Tensor) -> Tensor:
    return right[chosen].double().mean()


def _right(logits: Tensor, tokens: Tensor) -> Tensor:
    return logits[:, :-1].argmax(-1) == tokens[:, 1:]


def _by_sample(logits: Tensor, tokens: Tensor, known: Tensor) -> Tensor:
    right, chosen = _right(logits, tokens), known[:, 1:]
    return ((right & chosen).sum(1) / chosen.sum(1).double()).mean()


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for batch, num_tokens, letters in rng.size_rows(3, 3, 5, 12):
        tokens = torch.tensor([[rng.integer(letters) for _ in range(num_tokens)] for _ in range(batch)])
        logits = rng.normal(batch, num_tokens, letters)
        following = torch.nn.functional.one_hot(tokens[:, 1:], letters)
        logits[:, :-1] += 1.5 * following  # right more often than by chance
        first = torch.tensor([[1 + rng.integer(num_tokens - 2)] for _ in range(batch)])
        first[0], first[1] = 1, num_tokens - 2  # so that samples have different numbers of known tokens
        cases.append(Case((logits, tokens, torch.arange(num_tokens) >= first)))
    # Some tokens in between are known, of a single sample and of several.
    for logits, tokens, _ in [one.arguments for one in cases[:2]]:
        known = (torch.arange(tokens.shape[1]) + torch.arange(len(tokens))[:, None]) % 3 == 1
        known[:, 0] = False
        cases += [Case((logits[:count], tokens[:count], known[:count])) for count in (1, len(tokens))]
    return cases


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
    draw=_draw,
    arguments={"logits": "batch token letter", "tokens": "batch token", "known": "batch token"},
    fixed="token letter",
    own_dtype=True,
    extract=lambda result, *_: torch.as_tensor(result, dtype=torch.float64),
    wrong="""
_share(logits.argmax(-1) == tokens, known)
    a share in which position t has to name token t itself: its logits are about token t + 1
    ? Which position predicts token 5?
_share(logits[:, 1:].argmax(-1) == tokens[:, :-1], known[:, 1:])
    a share in which position t has to name token t - 1
    ? Which position predicts token 5?
_share(_right(logits, tokens), known[:, :-1])
    a share over the positions that are known, not over those whose next token is known
    ? Is `known[:, t]` about token t or about token t + 1?
_right(logits, tokens).double().mean()
    the share of all tokens, known or not
    ? Which tokens could be predicted?
1 - result
    the share of wrong ones; that of right ones is asked for
    ? What does your comparison count, equal letters or unequal ones?
100 * result
    the share in percent
    ? How large can a share be?
(_right(logits, tokens) & known[:, 1:]).sum()
    how many are right; the share is asked for
    ? By what do you divide?
(_right(logits, tokens) & known[:, 1:]).double().mean()
    the right ones divided by the number of all tokens, known or not
    ? By what do you divide?
_by_sample(logits, tokens, known)
    a mean of the samples' shares: a sample with few known tokens counts as much as one with many
    ? How many tokens count, over all samples?
""",
)
