"""Two halves of the keys."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def merge_partial(out_a, lse_a, out_b, lse_b):
    # (query, width), (query), the same for b -> (query, width), (query)
    lse = torch.logaddexp(lse_a, lse_b)  # (query)
    share_a, share_b = (lse_a - lse).exp(), (lse_b - lse).exp()
    return share_a[:, None] * out_a + share_b[:, None] * out_b, lse


def _merge(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    return share[:, None] * a + (1 - share)[:, None] * b, torch.logaddexp(lse_a, lse_b)


def _exp_shares(lse_a: Tensor, lse_b: Tensor) -> Tensor:
    return lse_a.exp() / (lse_a.exp() + lse_b.exp())


def _unguarded(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    merged = _merge(a, lse_a, b, lse_b, _exp_shares(lse_a, lse_b))[0]
    return merged, (lse_a.exp() + lse_b.exp()).log()


def _one_largest(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    largest = torch.maximum(lse_a.max(), lse_b.max())
    sum_a, sum_b = (lse_a - largest).exp(), (lse_b - largest).exp()
    return _merge(a, lse_a, b, lse_b, sum_a / (sum_a + sum_b))[0], largest + (sum_a + sum_b).log()


def _summed(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    return a + b, torch.logaddexp(lse_a, lse_b)


def _undivided(a: Tensor, lse_a: Tensor, b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    largest = torch.maximum(lse_a, lse_b)
    merged = (lse_a - largest).exp()[:, None] * a + (lse_b - largest).exp()[:, None] * b
    return merged, torch.logaddexp(lse_a, lse_b)


def _partial(rng: InputGenerator, queries: int, keys: int, width: int, offset: float) -> tuple[Tensor, Tensor]:
    scores = rng.normal(queries, keys, std=1.5) + offset
    return scores.softmax(-1) @ rng.normal(keys, width), scores.logsumexp(-1)


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for (queries, width, keys, others), offset in zip(rng.size_rows(3, 4, 3, 9), (0.0, 2000.0, -2000.0), strict=True):
        halves = *_partial(rng, queries, keys, width, offset), *_partial(rng, queries, others, width, offset + 1.0)
        cases.append(Case(halves, f"the scores are about {offset:.0f}" if offset else ""))
    out, lse, other_out, other_lse = cases[0].arguments
    hidden = torch.arange(len(lse)) < len(lse) // 2
    lse_b, out_b = other_lse.masked_fill(hidden, -torch.inf), other_out.masked_fill(hidden[:, None], 0.0)
    apart = 800.0 * torch.arange(len(lse))
    return [
        *cases,
        Case((out, lse, out_b, lse_b), "some queries see no key of the second half"),
        Case((out, lse - apart, other_out, other_lse - apart), "the scores of each query lie 800 below the one before"),
    ]


EXERCISE = FunctionExercise(
    merge_partial,
    title="Two halves of the keys",
    difficulty=3,
    minutes=3,
    prompt=(
        "The keys were cut into two parts, and each part was attended to alone. `out_a` is the finished attention over "
        "the keys of part a, softmax included, and `lse_a` its `scores.logsumexp(dim=-1)`: the logarithm of the sum of "
        "exp(score), one number per query. The same for b. Give back what attention over all keys gives: the output, "
        "and its logsumexp. The check also comes with scores around 2000 and -2000, with scores far apart "
        "from query to query, and with queries that see no key of part b: their `lse_b` is -inf and their row of "
        "`out_b` is 0."
    ),
    hints=(
        "How much of the whole softmax falls to part a? Its sum of exponentials, divided by that of all keys.",
        "The sum of a part is exp(lse). The new lse is the logarithm of the two sums added; exp(2000) is infinite, but "
        "`torch.logaddexp` takes logarithms and gives back a logarithm.",
        "`lse = torch.logaddexp(lse_a, lse_b)`; the share of part a is `(lse_a - lse).exp()`, one number per query, "
        "and multiplies the rows of `out_a`.",
    ),
    draw=_draw,
    arguments={"out_a": "query width", "lse_a": "query", "out_b": "query width", "lse_b": "query"},
    axes="output lse",
    gradients=("out_a", "lse_a", "out_b", "lse_b"),
    wrong=(
        Wrong(
            "the mean of the two outputs: one part may hold much more of the softmax",
            lambda a, la, b, lb: _merge(a, la, b, lb, torch.full_like(la, 0.5)),
            hint="How much should a part count whose scores are all very low?",
        ),
        Wrong("the sum of the two outputs", _summed, hint="Do the weights of all keys together sum to 1?"),
        Wrong(
            "outputs weighted by the lse itself, not by exp of it",
            lambda a, la, b, lb: _merge(a, la, b, lb, la / (la + lb)),
            hint="Of what is lse the logarithm?",
        ),
        Wrong(
            "a merge with the two shares exchanged",
            lambda a, la, b, lb: _merge(b, la, a, lb, torch.sigmoid(la - lb)),
            hint="Which output does the share of part a multiply?",
        ),
        Wrong(
            "a merge without a guard against large scores: exp(2000) is infinite",
            _unguarded,
            hint="Shares don't change if both lse get smaller by the same number. Which number?",
        ),
        Wrong(
            "a merge that takes the largest lse of all queries from every one: for the others, both sums become 0",
            _one_largest,
            hint="Of which queries should the largest be taken: all of them, or each its own?",
        ),
        Wrong(
            "a merge with one share for all queries: the mean of their shares",
            lambda a, la, b, lb: _merge(a, la, b, lb, torch.sigmoid(la - lb).mean().expand_as(la)),
            hint="Does every query find the same share of its softmax in part a?",
        ),
        Wrong(
            "a merge whose shares are the softmax of exp(lse): the exponential was taken twice",
            lambda a, la, b, lb: _merge(a, la, b, lb, torch.sigmoid(la.exp() - lb.exp())),
            hint="What does softmax do with its input first?",
        ),
        Wrong(
            "a merge without the shares of part b: its output was added whole",
            lambda a, la, b, lb: (torch.sigmoid(la - lb)[:, None] * a + b, torch.logaddexp(la, lb)),
            hint="By what is the output of part b multiplied?",
        ),
        Wrong(
            "the right output, with the mean of the two lse",
            lambda a, la, b, lb: (merge_partial(a, la, b, lb)[0], (la + lb) / 2),
            hint="What is the logarithm of a sum of two exponentials?",
        ),
        Wrong(
            "the right values in the wrong order: the output comes first",
            lambda a, la, b, lb: merge_partial(a, la, b, lb)[::-1],
            hint="Which of the two should come first?",
        ),
        Wrong(
            "a merge whose shares don't sum to 1",
            _undivided,
            hint="What must both parts be divided by?",
        ),
        Wrong(
            "the right output, with the two lse added up: the sums add, not their logarithms",
            lambda a, la, b, lb: (merge_partial(a, la, b, lb)[0], la + lb),
            hint="What is the logarithm of a sum of two exponentials?",
        ),
        Wrong(
            "the right output, with the larger lse instead of that of all keys",
            lambda a, la, b, lb: (merge_partial(a, la, b, lb)[0], torch.maximum(la, lb)),
            hint="What is lse for two equal halves?",
        ),
        Wrong(
            "the right output, with the sum of exponentials instead of its logarithm",
            lambda a, la, b, lb: (merge_partial(a, la, b, lb)[0], torch.logaddexp(la, lb).exp()),
            hint="What did `lse_a` hold, the sum or its logarithm?",
        ),
        Wrong(
            "the right output alone; its lse is asked for, too",
            lambda a, la, b, lb: merge_partial(a, la, b, lb)[0],
            hint="What would a third part need to be merged?",
        ),
        Wrong(
            "the output of the part with the larger lse alone",
            lambda a, la, b, lb: _merge(a, la, b, lb, (la > lb).to(a.dtype)),
            hint="How much does a part count that holds a third of the softmax?",
        ),
        Wrong(
            "shares that sum to 1 over the queries; those of the two parts should",
            lambda a, la, b, lb: (la.softmax(0)[:, None] * a + lb.softmax(0)[:, None] * b, torch.logaddexp(la, lb)),
            "softmax-wrong-axis",
            "Over which axis do your shares sum to 1?",
        ),
    ),
)
