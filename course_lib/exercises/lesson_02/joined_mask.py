"""Two masks in one."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case, Wrong
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
    wrong=(
        Wrong(
            "the keys that one of the masks allows; both have to",
            lambda keep, real: keep | real[:, None, None],
            hint="May a query attend to padding because the padding comes before it?",
        ),
        Wrong(
            "the causal mask alone, once per sample",
            lambda keep, real: keep.expand(len(real), 1, -1, -1),
            hint="Where does your mask use `real`?",
        ),
        Wrong(
            "the padding mask alone, once per query",
            lambda keep, real: real[:, None, None].expand(-1, 1, len(keep), -1),
            hint="Where does your mask use `keep`?",
        ),
        Wrong(
            "the joined mask without an axis for the heads: (batch, query, key) would line up with (head, query, key)",
            lambda keep, real: joined_mask(keep, real)[:, 0],
            "mask-rank",
        ),
        Wrong("the mask upside down: True where a key is hidden", lambda k, r: ~joined_mask(k, r), "mask-inverted"),
        Wrong(
            "a mask that hides padding as queries; nobody must look at it, so it is hidden as a key",
            lambda keep, real: keep & real[:, None, :, None],
            "mask-transposed",
        ),
        Wrong(
            "a mask that hides padding as queries, too: their rows see nothing",
            lambda keep, real: keep & real[:, None, None] & real[:, None, :, None],
            hint="Does the task say anything about queries that are padding? What would softmax make of such a row?",
        ),
        Wrong("the mask as numbers 0 and 1; it should be bool", lambda keep, real: joined_mask(keep, real).float()),
        Wrong("the mask as integers 0 and 1; it should be bool", lambda keep, real: joined_mask(keep, real).long()),
        Wrong(
            "the keys that exactly one of the masks allows",
            lambda keep, real: keep ^ real[:, None, None],
            hint="What does your operator give for True and True?",
        ),
        Wrong(
            "the padding that `keep` allows: the real tokens are hidden",
            lambda keep, real: keep & ~real[:, None, None],
            "mask-inverted",
            "What does True mean in `real`?",
        ),
        Wrong(
            "the real tokens that `keep` hides",
            lambda keep, real: ~keep & real[:, None, None],
            "mask-inverted",
            "What does True mean in `keep`?",
        ),
        Wrong(
            "the right rows with the axis of heads in front of that of the samples: (1, batch, query, key)",
            lambda keep, real: joined_mask(keep, real).transpose(0, 1),
            "mask-rank",
        ),
        Wrong(
            "the right rows with the axis of heads behind that of the queries: (batch, query, 1, key)",
            lambda keep, real: joined_mask(keep, real).transpose(1, 2),
            "mask-rank",
        ),
        Wrong(
            "the joined mask with queries and keys exchanged in `keep`",
            lambda keep, real: keep.T & real[:, None, None],
            "mask-transposed",
        ),
        Wrong(
            "the mask as numbers to be added to the scores; here it should be bool",
            lambda keep, real: torch.zeros(joined_mask(keep, real).shape).masked_fill(
                ~joined_mask(keep, real), -torch.inf
            ),
        ),
        Wrong(
            "the keys for which the two masks are equal",
            lambda keep, real: keep == real[:, None, None],
            hint="What does your operator give for False and False?",
        ),
        Wrong(
            "a mask in which every sample has the padding of the first one",
            lambda keep, real: (keep & real[0]).expand(len(real), 1, -1, -1),
            hint="Which samples of `real` does your mask use?",
        ),
    ),
)
