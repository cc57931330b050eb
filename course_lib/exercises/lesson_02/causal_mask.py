"""The causal mask."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def causal_mask(num_tokens, num_prompt=0):
    # two ints -> (query, key), bool, True = may attend
    keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    keep[:, :num_prompt] = True
    return keep


def _mask(num_tokens: int, num_prompt: int, diagonal: int = 0) -> Tensor:
    positions = torch.arange(num_tokens)
    return (positions[:, None] + diagonal >= positions) | (positions < num_prompt)


def _draw(rng: InputGenerator) -> list[Case]:
    first = 5 + rng.integer(3)  # small, so that it can be drawn on paper
    sizes = [(num_tokens, 2 + rng.integer(num_tokens - 4)) for num_tokens in (first, *rng.sizes(3, 8, 40))]
    alone = 33 + rng.integer(16)
    return [Case(pair) for pair in (*sizes, (alone, 0), (alone + 1, alone + 1), (1, 0))]


EXERCISE = FunctionExercise(
    causal_mask,
    title="The causal mask",
    difficulty=2,
    minutes=6,
    prompt=(
        "Who may look at whom? The first `num_prompt` tokens are a prompt, which is known from the start: **every** "
        "token may look at all of them. The other tokens are written one by one: a token may look at itself and at "
        "those before it. Without a prompt, `num_prompt=0`, it is the causal mask of the lesson."
    ),
    hints=(
        "Row q says what query q may look at: itself, everything before it, and the whole prompt.",
        "Begin with the causal mask: `torch.ones(n, n, dtype=torch.bool).tril()` keeps the lower triangle with the "
        "diagonal. Which columns belong to the prompt?",
        "The prompt is the first columns, in every row: `keep[:, :num_prompt] = True`.",
    ),
    draw=_draw,
    least={"num_prompt": 0},
    axes="query key",
    wrong=(
        Wrong(
            "the causal mask, without the prompt",
            lambda n, p=0: _mask(n, 0),
            hint="May the first token of the prompt look at the second one?",
        ),
        Wrong(
            "the mask upside down: it is True where a token must not look", lambda n, p=0: ~_mask(n, p), "mask-inverted"
        ),
        Wrong(
            "the upper triangle with the prompt: a token sees itself and what comes after it",
            lambda n, p=0: _mask(n, 0).T | (torch.arange(n) < p),
            "mask-transposed",
        ),
        Wrong(
            "the upper triangle without its diagonal, with the prompt: a token sees what comes after it alone",
            lambda n, p=0: ~_mask(n, 0) | (torch.arange(n) < p),
            "mask-inverted",
        ),
        Wrong("the mask with queries and keys exchanged", lambda n, p=0: _mask(n, p).T, "mask-transposed"),
        Wrong("a mask that shows each token the next one, too", lambda n, p=0: _mask(n, p, 1), "mask-off-by-one"),
        Wrong("a mask that hides each token from itself", lambda n, p=0: _mask(n, p, -1), "mask-off-by-one"),
        Wrong("a mask that hides nothing", lambda n, p=0: torch.ones(n, n).bool(), "no-causal-mask"),
        Wrong(
            "a mask in which the tokens of the prompt see everything: it is seen, and doesn't see what comes later",
            lambda n, p=0: _mask(n, 0) | (torch.arange(n) < p)[:, None],
            hint="Is a row a query or a key? Which of the two is the prompt here?",
        ),
        Wrong(
            "a mask that shows one token after the prompt to all",
            lambda n, p=0: _mask(n, p + 1),
            hint="Tokens are counted from 0. Which one is the last of the prompt?",
        ),
        Wrong(
            "a causal mask whose whole diagonal is moved by `num_prompt`: each token sees as many later ones",
            lambda n, p=0: _mask(n, 0, p),
            "mask-off-by-one",
            hint="May the last but one token see the last one?",
        ),
        Wrong(
            "the mask as numbers 0 and 1; it should be bool, with True = may attend",
            lambda n, p=0: _mask(n, p).float(),
            hint="Which dtype does `masked_fill` ask for?",
        ),
        Wrong(
            "the mask as numbers to be added to the scores; here it should be bool",
            lambda n, p=0: torch.zeros(n, n).masked_fill(~_mask(n, p), -torch.inf),
        ),
        Wrong(
            "a mask that hides the last token of the prompt from those before it",
            lambda n, p=0: _mask(n, max(p - 1, 0)),
            hint="Tokens are counted from 0. Which one is the last of the prompt?",
        ),
        Wrong(
            "a causal mask that shows the last tokens to all; the prompt comes first",
            lambda n, p=0: _mask(n, 0) | (torch.arange(n) >= n - p),
            hint="Which columns belong to the prompt?",
        ),
    ),
)
