"""Two halves of the keys."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def merge_partial(out_a, lse_a, out_b, lse_b):
    # (query, width), (query), the same for b -> (query, width), (query)
    lse = torch.logaddexp(lse_a, lse_b)  # (query)
    share_a, share_b = (lse_a - lse).exp(), (lse_b - lse).exp()
    return share_a[:, None] * out_a + share_b[:, None] * out_b, lse


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
    minutes=5,
    prompt=(
        "The step by which flash decoding joins its workers, and context parallelism its devices; lesson 16 goes on "
        "with yours. The keys were cut into two parts, and each part was attended to alone. `out_a` is the finished "
        "attention over the keys of part a, softmax included, and `lse_a` its `scores.logsumexp(dim=-1)`: the "
        "logarithm of the sum of exp(score), one number per query. The same for b. Give back what attention over all "
        "keys gives: the output, and its logsumexp. The check also comes with scores around 2000 and -2000, with "
        "scores far apart from query to query, and with queries that see no key of part b: their `lse_b` is -inf and "
        "their row of `out_b` is 0."
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
    wrong="""
share_a[:, None] * out_a + share_b[:, None] * out_b => (out_a + out_b) / 2
    the mean of the two outputs: one part may hold much more of the softmax
    ? How much should a part count whose scores are all very low?
share_a[:, None] * out_a + share_b[:, None] * out_b => out_a + out_b
    the sum of the two outputs
    ? Do the weights of all keys together sum to 1?
(lse_a - lse).exp(), (lse_b - lse).exp() => lse_a / (lse_a + lse_b), lse_b / (lse_a + lse_b)
    outputs weighted by the lse itself, not by exp of it
    ? Of what is lse the logarithm?
right(out_b, lse_a, out_a, lse_b)
    a merge with the two shares exchanged
    ? Which output does the share of part a multiply?
torch.logaddexp(lse_a, lse_b) => (lse_a.exp() + lse_b.exp()).log() && (lse_a - lse).exp(), (lse_b - lse).exp() => lse_a.exp() / lse.exp(), lse_b.exp() / lse.exp()
    a merge without a guard against large scores: exp(2000) is infinite
    ? Shares don't change if both lse get smaller by the same number. Which number?
largest = torch.maximum(lse_a.max(), lse_b.max()); a, b = (lse_a - largest).exp(), (lse_b - largest).exp(); return (a / (a + b))[:, None] * out_a + (b / (a + b))[:, None] * out_b, largest + (a + b).log()
    a merge that takes the largest lse of all queries from every one: for the others, both sums become 0
    ? Of which queries should the largest be taken: all of them, or each its own?
(lse_a - lse).exp(), (lse_b - lse).exp() => (lse_a - lse).exp().mean().expand_as(lse), (lse_b - lse).exp().mean().expand_as(lse)
    a merge with one share for all queries: the mean of their shares
    ? Does every query find the same share of its softmax in part a?
(lse_a - lse).exp(), (lse_b - lse).exp() => torch.stack([lse_a.exp(), lse_b.exp()]).softmax(0)
    a merge whose shares are the softmax of exp(lse): the exponential was taken twice
    ? What does softmax do with its input first?
(lse_b => (lse
    a merge without the shares of part b: its output was added whole
    ? By what is the output of part b multiplied?
(result[0], (lse_a + lse_b) / 2)
    the right output, with the mean of the two lse
    ? What is the logarithm of a sum of two exponentials?
result[::-1]
    the right values in the wrong order: the output comes first
    ? Which of the two should come first?
(lse_a - lse).exp(), (lse_b - lse).exp() => (lse_a - torch.maximum(lse_a, lse_b)).exp(), (lse_b - torch.maximum(lse_a, lse_b)).exp()
    a merge whose shares don't sum to 1
    ? What must both parts be divided by?
(result[0], lse_a + lse_b)
    the right output, with the two lse added up: the sums add, not their logarithms
    ? What is the logarithm of a sum of two exponentials?
torch.logaddexp(lse_a, lse_b) => lse_a + lse_b
    a merge with the two lse added up: the sums add, not their logarithms
    ? What is the logarithm of a sum of two exponentials?
(result[0], torch.maximum(lse_a, lse_b))
    the right output, with the larger lse instead of that of all keys
    ? What is lse for two equal halves?
(result[0], torch.logaddexp(lse_a, lse_b).exp())
    the right output, with the sum of exponentials instead of its logarithm
    ? What did `lse_a` hold, the sum or its logarithm?
result[0]
    the right output alone; its lse is asked for, too
    ? What would a third part need to be merged?
share_a[:, None] * out_a + share_b[:, None] * out_b => torch.where((lse_a > lse_b)[:, None], out_a, out_b)
    the output of the part with the larger lse alone
    ? How much does a part count that holds a third of the softmax?
(lse_a.softmax(0)[:, None] * out_a + lse_b.softmax(0)[:, None] * out_b, torch.logaddexp(lse_a, lse_b))
    shares that sum to 1 over the queries; those of the two parts should [softmax-wrong-axis]
    ? Over which axis do your shares sum to 1?
""",
)
