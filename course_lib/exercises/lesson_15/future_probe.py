"""A probe that tells whether one token is seen by earlier ones."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

from .leaks import MASKED_ATTENTION


def future_probe(code, x, token):
    # code of (batch, token, width), x, int -> bool: does an earlier output move?
    changed = x.clone()
    changed[:, token] += 1.0
    return not torch.allclose(code(changed)[:, :token], code(x)[:, :token])


def _as_bool(result: object, *_: object) -> object:
    return result.item() if isinstance(result, Tensor) and result.dim() == 0 else result


def _leak(num_tokens: int, query: int, key: int) -> Tensor:
    keep = torch.ones(num_tokens, num_tokens).tril().bool()
    keep[query, key] = True
    return keep


IN_SOME = "a token sees the changed one, in some of the samples"
CANCELS = "a token sees the changed one, in two channels whose changes cancel out in a sum"


def _draw(rng: InputGenerator) -> list[Case]:
    whole = 1.0, -1  # how much of the later token is added, and to which channel; -1 for all
    kinds = [  # about the code, then the tokens: which one sees which, and which one is changed
        ("the code is causal", 1, 0, -1, whole),
        ("the code is causal", 1, 0, 2, whole),
        ("the first token sees the changed one", 0, -1, -1, whole),
        ("the first token sees the changed one, a little", 0, 2, 2, (0.005, -1)),
        ("the first token sees the changed one, in a single channel that falls", 0, 2, 2, (-1.0, 1)),
        ("the token before the changed one sees it", 1, 2, 2, whole),
        (IN_SOME, 0, -2, -2, whole),
        (CANCELS, 0, 2, 2, (1.0, 3)),
        ("the first token sees a later one, but another token is changed", 0, 3, 2, whole),
        ("the token after the changed one sees a still later one", 3, 4, 2, whole),
    ]
    cases = []
    for about, query, key, token, (part, channel) in rng.shuffled(kinds):
        batch, num_tokens, width = rng.sizes(3, 5, 9)
        x = rng.normal(batch, num_tokens, width, std=0.6)  # close together, so that no attention weight is tiny
        x[:, 0, 0] = x[:, 0, 0].abs()
        if about is IN_SOME:
            x[0, 0, 0] *= -1  # what is later can't be seen in this one
        seen_as = "sum" if about is CANCELS else ""
        code = FromSource(MASKED_ATTENTION, "masked_by", (_leak(num_tokens, query, key), part, channel, seen_as))
        cases.append(Case((code, x, token % num_tokens), about))
    return cases


EXERCISE = FunctionExercise(
    future_probe,
    title="Change a token, watch the ones before it",
    difficulty=2,
    minutes=3,
    prompt=(
        "Change one token in all samples, here by adding 1 to it, and run `code` before and after. Return True if the "
        "output of an *earlier* token moved, in any sample, and False if none did. `x` is to stay as it is."
    ),
    hints=(
        "`changed = x.clone()` is a copy; `changed[:, token] += 1.0` changes the token in it.",
        "The outputs before the token are `[:, :token]`, and `torch.allclose` compares two of them.",
    ),
    draw=_draw,
    extract=_as_bool,
    wrong="""
[:, :token] => [:, : token + 1]
    True wherever it is called, as of a probe that watches the changed token's own output, too: that one may move
    ? Where does your slice end, and which axis holds the tokens?
not result
    a probe that says yes where nothing moved, and no where something did
    ? What does `torch.allclose` return if nothing moved?
[:, :token] => [:, token - 1 : token]
    a probe that watches the token just before the changed one only
    ? Which tokens come before token 3?
[:, :token] => [:1, :token]
    a probe that watches the first sample only
    ? Which axis holds the samples?
[:, token] += => [:, -1] +=
    a probe that changes the last token, whichever it is told
    ? Where does your code use `token`?
[:, :token] => [:, token + 1 :]
    a probe that watches the outputs behind the changed token: those may move
    ? Which outputs must not notice the change?
not torch.allclose(code(changed)[:, :token], code(x)[:, :token]) => bool((code(changed) - code(x))[:, :token].max() > 1e-9)
    a probe that overlooks outputs that move down
    ? How large is a difference of -5 without its sign?
not torch.allclose(code(changed)[:, :token], code(x)[:, :token]) => bool((code(changed) - code(x))[:, :token].mean().abs() > 1e-9)
    a probe that overlooks changes whose sum is zero
    ? What is left of +5 and -5 in a mean?
""",
)
