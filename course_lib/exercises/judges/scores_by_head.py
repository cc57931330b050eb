"""Scores of all heads at once."""

from __future__ import annotations

import torch
from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


def _scores(queries: Tensor, keys: Tensor, width: int | None = None) -> Tensor:
    return torch.einsum("bhqd,bhkd->bhqk", queries, keys) * (width or queries.shape[-1]) ** -0.5


SCORES_BY_HEAD = FunctionJudge(
    reference=_scores,
    inputs=lambda: [
        (numbers(2, 3, 5, 7), numbers(2, 3, 5, 7, seed=1)),
        (numbers(3, 2, 4, 6), numbers(3, 2, 5, 6, seed=1)),
    ],
    axes="batch head query key",
    wrong=(
        Wrong("scores without the division", lambda q, k: _scores(q, k, 1), "missing-scale"),
        Wrong(
            "scores divided by the root of the width over all heads",
            lambda q, k: _scores(q, k, q.shape[1] * q.shape[3]),
            "wrong-scale",
        ),
        Wrong(
            "scores divided by head_dim, without the root", lambda q, k: _scores(q, k, q.shape[3] ** 2), "wrong-scale"
        ),
        Wrong(
            "scores divided by the root of the number of queries", lambda q, k: _scores(q, k, q.shape[2]), "wrong-scale"
        ),
        Wrong(
            "scores in which queries and keys are exchanged: (batch, head, key, query)",
            lambda q, k: _scores(q, k).transpose(2, 3),
            hint="Which of the two stands on the left of the product?",
        ),
        Wrong(
            "the sum of all heads' scores",
            lambda q, k: _scores(q, k).sum(1, keepdim=True).expand(-1, q.shape[1], -1, -1),
            "heads-share-scores",
        ),
        Wrong(
            "the scores of all heads added up, without an axis of heads",
            lambda q, k: _scores(q, k).sum(1),
            "heads-share-scores",
        ),
        Wrong(
            "the scores of head 0 for every head",
            lambda q, k: _scores(q[:, :1], k[:, :1]).expand(-1, q.shape[1], -1, -1),
            "heads-share-scores",
        ),
        Wrong(
            "the products of heads with heads, token by token: (batch, token, head, head)",
            lambda q, k: q.transpose(1, 2) @ k.transpose(1, 2).transpose(2, 3) * q.shape[-1] ** -0.5,
            hint="Which two axes does `@` multiply? Who meets whom?",
        ),
    ),
)
