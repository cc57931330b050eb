"""Two masks in one."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def joined_mask(keep, real):
    # (query, key) bool, (batch, key) bool -> (batch, 1, query, key) bool
    return keep & real[:, None, None]  # (q, k) & (b, 1, 1, k) -> (b, 1, q, k)


def _draw(rng: InputGenerator) -> list[Case]:
    batch, tokens = rng.sizes(2, 5, 9)
    keep, real = rng.normal(tokens, tokens) > 0, rng.normal(batch, tokens) > 0
    keep[:, 0], real[0, 0], keep[0, 1], real[0, 1] = True, True, False, True  # so that the masks differ in both axes
    keep[-1, 2], real[-1, 0], real[-1, 2] = True, True, False
    cases = [Case((keep, real), "any token may be hidden from any other")]
    for batch, queries, keys in zip(rng.sizes(3, 2, 4), rng.sizes(3, 5, 7), rng.sizes(3, 8, 12), strict=True):
        lengths = torch.tensor([keys - 1 - length for length in rng.sizes(batch, 0, keys - 4)])
        keep = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
        cases.append(Case((keep, torch.arange(keys) < lengths[:, None])))
    return cases


EXERCISE = FunctionExercise(
    joined_mask,
    title="Two masks in one",
    difficulty=2,
    minutes=5,
    prompt=(
        "`keep` says which key each query may attend to, and is the same for all samples. `real` says which tokens of "
        "each sample are real and which are padding. Both are bool; True means *may attend* and *real*. Join them to "
        "one mask for scores of (batch, head, query, key): a query may attend to a key if `keep` allows it **and** the "
        "key is real. To insert an axis of size 1, write `None` in its place: if `a` is (3, 4), then `a[:, None]` is "
        "(3, 1, 4)."
    ),
    hints=(
        "Two bool tensors are joined by `&`: the result is True where both are True.",
        "Shapes are aligned at the last axis. `real` is (batch, key), and two axes must come between: heads and "
        "queries.",
        "`real[:, None, None]` is (batch, 1, 1, key). Join that with `keep`, and PyTorch broadcasts the rest.",
    ),
    draw=_draw,
    draw_edges=lambda rng: [Case((rng.normal(17, 20) > 0, rng.normal(18, 20) > 0))],
    arguments={"keep": "query key", "real": "batch key"},
    axes="batch 1 query key",
    wrong="""
keep | real[:, None, None]
    the keys that one of the masks allows; both have to
    ? May a query attend to padding because the padding comes before it?
keep.expand(len(real), 1, -1, -1)
    the causal mask alone, once per sample
    ? Where does your mask use `real`?
real[:, None, None].expand(-1, 1, len(keep), -1)
    the padding mask alone, once per query
    ? Where does your mask use `keep`?
result[:, 0]
    the joined mask without an axis for the heads: (batch, query, key) would line up with (head, query, key)
        [mask-rank]
~result
    the mask upside down: True where a key is hidden [mask-inverted]
keep & real[:, None, :, None]
    a mask that hides padding as queries; nobody must look at it, so it is hidden as a key [mask-transposed]
keep & real[:, None, None] & real[:, None, :, None]
    a mask that hides padding as queries, too: their rows see nothing
    ? Does the task say anything about queries that are padding? What would softmax make of such a row?
result.long()
    the mask as integers 0 and 1; it should be bool
keep ^ real[:, None, None]
    the keys that exactly one of the masks allows
    ? What does your operator give for True and True?
keep & ~real[:, None, None]
    the padding that `keep` allows: the real tokens are hidden [mask-inverted]
    ? What does True mean in `real`?
~keep & real[:, None, None]
    the real tokens that `keep` hides [mask-inverted]
    ? What does True mean in `keep`?
result.transpose(0, 1)
    the right rows with the axis of heads in front of that of the samples: (1, batch, query, key) [mask-rank]
result.transpose(1, 2)
    the right rows with the axis of heads behind that of the queries: (batch, query, 1, key) [mask-rank]
keep.T & real[:, None, None]
    the joined mask with queries and keys exchanged in `keep` [mask-transposed]
keep == real[:, None, None]
    the keys for which the two masks are equal
    ? What does your operator give for False and False?
(keep & real[0]).expand(len(real), 1, -1, -1)
    a mask in which every sample has the padding of the first one
    ? Which samples of `real` does your mask use?
""",
)
