"""One head: scores, scale, softmax, mix."""

from __future__ import annotations

from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers, three_roles


def _scaled(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.T / queries.shape[-1] ** 0.5


def _attend(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return _scaled(queries, keys).softmax(-1) @ values


def _times_root(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.T * queries.shape[-1] ** 0.5


def _over_tokens(queries: Tensor, keys: Tensor) -> Tensor:
    return queries @ keys.T / keys.shape[0] ** 0.5


SCORES_OF_TOKEN = FunctionJudge(
    reference=lambda query, keys: keys @ query,
    inputs=lambda: [(numbers(7), numbers(5, 7)), (numbers(4), numbers(3, 4))],
    axes="key",
    wrong=(
        Wrong(
            "the products before they are added up", lambda q, k: k * q, hint="What turns the products into one score?"
        ),
        Wrong(
            "the mean of the products instead of their sum",
            lambda q, k: (k * q).mean(-1),
            hint="Does a dot product divide by anything?",
        ),
        Wrong(
            "the scores after they were divided by the square root of the width: right, but one exercise too early",
            lambda q, k: k @ q / len(q) ** 0.5,
        ),
        Wrong("the softmax of the scores: these are weights already", lambda q, k: (k @ q).softmax(-1)),
        Wrong(
            "the cosine of the angles: the lengths of the vectors are lost",
            lambda q, k: k @ q / (k.norm(dim=-1) * q.norm()),
        ),
        Wrong("the size of the scores without their sign", lambda q, k: (k @ q).abs()),
        Wrong(
            "the first key's score for every key",
            lambda q, k: (k @ q)[:1].expand(len(k)),
            hint="In your loop, which key is compared each time?",
        ),
        Wrong("the scores as a table of one column; one axis is enough", lambda q, k: (k @ q)[:, None]),
    ),
)


SCALED_SCORES = FunctionJudge(
    reference=_scaled,
    inputs=lambda: [(numbers(5, 7), numbers(5, 7, seed=1)), (numbers(3, 4), numbers(6, 4, seed=1))],
    axes="query key",
    wrong=(
        Wrong("the scores without the division", lambda q, k: q @ k.T, "missing-scale"),
        Wrong(
            "the scores divided by the width, not by its square root", lambda q, k: q @ k.T / q.shape[1], "wrong-scale"
        ),
        Wrong("the scores divided by the square root of the number of keys", _over_tokens, "wrong-scale"),
        Wrong("the scores multiplied by the square root of the width", _times_root, "wrong-scale"),
        Wrong(
            "the scores with queries and keys exchanged: a row must be one query",
            lambda q, k: _scaled(k, q),
            hint="Which of the two stands on the left of the product?",
        ),
        Wrong("the queries compared with themselves", lambda q, k: _scaled(q, q), "projection-reused"),
    ),
)


SOFTMAX_ROWS = FunctionJudge(
    reference=lambda scores: scores.softmax(-1),
    inputs=lambda: [(numbers(5, 7),), (numbers(3, 4, spread=2.0),), (numbers(4, 6) + 2000.0,)],
    axes="query key",
    wrong=(
        Wrong("softmax over the queries: each column sums to 1", lambda s: s.softmax(0), "softmax-wrong-axis"),
        Wrong(
            "softmax over the whole table: all numbers together sum to 1",
            lambda s: s.flatten().softmax(0).view_as(s),
            "softmax-wrong-axis",
        ),
        Wrong(
            "each score divided by the sum of its row, without exp",
            lambda s: s / s.sum(-1, keepdim=True),
            "no-softmax",
        ),
        Wrong("the scores themselves", lambda s: s, "no-softmax"),
        Wrong(
            "softmax without a guard against large scores: exp(2000) is infinite",
            lambda s: s.exp() / s.exp().sum(-1, keepdim=True),
            hint="Softmax doesn't change if a row's largest score is subtracted first. What does exp get to see then?",
        ),
        Wrong("exp of the scores, not yet divided by their sum", lambda s: s.exp(), "no-softmax"),
        Wrong(
            "exp of the scores less the row's largest, not yet divided by their sum",
            lambda s: (s - s.amax(-1, keepdim=True)).exp(),
            "no-softmax",
        ),
        Wrong("softmax taken twice", lambda s: s.softmax(-1).softmax(-1), "double-softmax"),
        Wrong("the logarithm of the weights", lambda s: s.log_softmax(-1)),
    ),
)


ATTENTION = FunctionJudge(
    reference=_attend,
    inputs=lambda: three_roles((5, 7), (3, 4)),
    axes="query width",
    wrong=(
        Wrong("attention scored with the values", lambda q, k, v: _attend(q, v, v), "scores-from-values"),
        Wrong("attention that mixes the keys", lambda q, k, v: _attend(q, k, k), "projection-reused"),
        Wrong("attention scored with the queries alone", lambda q, k, v: _attend(q, q, v), "projection-reused"),
        Wrong("attention without the division", lambda q, k, v: (q @ k.T).softmax(-1) @ v, "missing-scale"),
        Wrong(
            "attention with scores divided by the width, not by its square root",
            lambda q, k, v: (q @ k.T / q.shape[1]).softmax(-1) @ v,
            "wrong-scale",
        ),
        Wrong(
            "attention with softmax over the queries",
            lambda q, k, v: _scaled(q, k).softmax(0) @ v,
            "softmax-wrong-axis",
        ),
        Wrong("attention without softmax", lambda q, k, v: _scaled(q, k) @ v, "no-softmax"),
        Wrong(
            "attention with softmax taken twice",
            lambda q, k, v: _scaled(q, k).softmax(-1).softmax(-1) @ v,
            "double-softmax",
        ),
        Wrong("the values, unmixed", lambda q, k, v: v, "weights-not-applied"),
        Wrong("the weights, before the mix", lambda q, k, v: _scaled(q, k).softmax(-1), "weights-not-applied"),
        Wrong(
            "attention divided after softmax",
            lambda q, k, v: (q @ k.T).softmax(-1) / q.shape[1] ** 0.5 @ v,
            "wrong-scale",
        ),
    ),
)
