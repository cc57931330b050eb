"""Sixteen ways to write multi-head attention, fifteen of them wrong: the comparison the tests use must see each.

This proves the tests, not the library: a comparison that stays green on one of these mistakes is too weak.
"""

import math

import pytest
import torch

from course_lib.attention import causal_keep
from tests.attention.form_cases import BATCH, D_OUT, HEADS, TOKENS, assert_same, build, draw_x, reference

HEAD_DIM = D_OUT // HEADS


def written_out(module, x, *, mistake=None):
    """Multi-head attention of `module`'s weights, with one mistake in it."""
    causal = causal_keep(TOKENS)
    cut = (BATCH, HEADS, TOKENS, HEAD_DIM) if mistake == "view without transpose" else (BATCH, TOKENS, HEADS, HEAD_DIM)
    queries, keys, values = (each(x).view(cut) for each in (module.q_proj, module.k_proj, module.v_proj))
    if mistake != "view without transpose":
        queries, keys, values = (each.transpose(1, 2) for each in (queries, keys, values))
    if mistake == "second head reuses the first":
        queries, keys = (torch.cat([each[:, :1], each[:, :1], each[:, 2:]], dim=1) for each in (queries, keys))
    scores = queries @ (values if mistake == "values as keys" else keys).transpose(2, 3)
    widths = {"no scale": 1.0, "scale by the root of d_out": D_OUT, "scale by head_dim": HEAD_DIM**2}
    scores = scores / math.sqrt(widths.get(mistake, HEAD_DIM))
    hidden = {
        "mask discarded": torch.zeros_like(causal),
        "diagonal one too high": ~causal.new_ones(TOKENS, TOKENS).tril(1),
        "diagonal one too low": ~causal.tril(-1),
        "mask transposed": ~causal.T,
    }.get(mistake, ~causal)
    fill = {"mask with zero": 0.0, "-1e9 for -inf": -1e9}.get(mistake, -torch.inf)
    weights = scores.masked_fill(hidden, fill).softmax(dim=-2 if mistake == "softmax over the queries" else -1)
    if mistake == "double softmax":
        weights = weights.masked_fill(hidden, -torch.inf).softmax(dim=-1)
    if mistake == "dropout on":
        weights = torch.dropout(weights, 0.1, True)
    context = weights @ values
    merged = (context if mistake == "merge without transpose" else context.transpose(1, 2)).reshape(
        x.shape[0], TOKENS, -1
    )
    return module.out_proj(merged)


MISTAKES = [
    "values as keys",
    "mask discarded",
    "second head reuses the first",
    "no scale",
    "scale by the root of d_out",
    "scale by head_dim",
    "double softmax",
    "mask with zero",
    "diagonal one too high",
    "diagonal one too low",
    "mask transposed",
    "view without transpose",
    "merge without transpose",
    "softmax over the queries",
    "dropout on",
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_comparison_goes_red(mistake):
    module, x = build("split"), draw_x()
    expected, _ = reference(module, "split", x)
    actual = written_out(module, x, mistake=mistake)
    assert actual.shape == expected.shape  # a test of the shape alone stays green on all fifteen
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        assert_same(actual, expected)
    with pytest.raises(AssertionError):
        assert_same(actual, expected, 1e-2)  # and not by a hair


@pytest.mark.parametrize("mistake", [None, "-1e9 for -inf"])
def test_the_comparison_stays_green_on_what_is_right(mistake):
    module, x = build("split"), draw_x()
    assert_same(written_out(module, x, mistake=mistake), reference(module, "split", x)[0])
    assert_same(written_out(module, x, mistake=mistake), module(x))


def test_the_mistakes_are_fifteen():
    assert len(set(MISTAKES)) == 15
