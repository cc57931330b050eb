"""All heads ask one set of keys and values."""

from __future__ import annotations

from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


def _weights(queries: Tensor, keys: Tensor, width: int | None = None) -> Tensor:
    scores = queries @ keys[:, None].transpose(2, 3) * (width or queries.shape[-1]) ** -0.5
    return scores.softmax(-1)


def _multi_query(queries: Tensor, keys: Tensor, values: Tensor, width: int | None = None) -> Tensor:
    return _weights(queries, keys, width) @ values[:, None]


def _one_set(batch: int, heads: int, num_tokens: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    keys, values = (numbers(batch, num_tokens, width, seed=seed, spread=1.5) for seed in (1, 2))
    return numbers(batch, heads, num_tokens, width, spread=1.5), keys, values


MULTI_QUERY = FunctionJudge(
    reference=_multi_query,
    inputs=lambda: [_one_set(2, 3, 5, 7), _one_set(3, 2, 4, 6)],
    axes="batch head query head_dim",
    wrong=(
        Wrong("multi-query attention without the division", lambda q, k, v: _multi_query(q, k, v, 1), "missing-scale"),
        Wrong(
            "multi-query attention scaled by the width over all heads",
            lambda q, k, v: _multi_query(q, k, v, q.shape[1] * q.shape[3]),
            "wrong-scale",
        ),
        Wrong(
            "multi-query attention scored with the values", lambda q, k, v: _multi_query(q, v, v), "scores-from-values"
        ),
        Wrong("multi-query attention that mixes the keys", lambda q, k, v: _multi_query(q, k, k), "projection-reused"),
        Wrong(
            "the mean of all query heads, asked once: the queries must stay apart",
            lambda q, k, v: _multi_query(q.mean(1, keepdim=True), k, v).expand_as(q),
            "heads-averaged",
        ),
        Wrong(
            "one head's result for all: keys and values are shared, queries are not",
            lambda q, k, v: _multi_query(q[:, :1], k, v).expand_as(q),
            "heads-share-scores",
        ),
        Wrong("the mean over the heads of the result", lambda q, k, v: _multi_query(q, k, v).mean(1), "heads-averaged"),
        Wrong(
            "softmax over the queries",
            lambda q, k, v: (q @ k[:, None].transpose(2, 3) * q.shape[-1] ** -0.5).softmax(-2) @ v[:, None],
            "softmax-wrong-axis",
        ),
        Wrong(
            "softmax over the heads",
            lambda q, k, v: (q @ k[:, None].transpose(2, 3) * q.shape[-1] ** -0.5).softmax(1) @ v[:, None],
            "softmax-wrong-axis",
        ),
        Wrong(
            "multi-query attention, already merged to (batch, token, head * head_dim): right, but one step too far",
            lambda q, k, v: _multi_query(q, k, v).transpose(1, 2).flatten(2),
        ),
        Wrong("the weights, before the mix", lambda q, k, v: _weights(q, k), "weights-not-applied"),
    ),
)
