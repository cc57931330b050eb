"""Two heads by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def two_heads(x, q_proj, k_proj, v_proj):
    # (token, d_in), three pairs of (d_in, head_dim) -> (token, 2 * head_dim)
    contexts = []
    for head in (0, 1):
        # (t, m) @ (m, d) -> (t, d)
        queries, keys, values = x @ q_proj[head], x @ k_proj[head], x @ v_proj[head]
        weights = ((queries * queries.shape[-1] ** -0.5) @ keys.T).softmax(dim=-1)
        contexts.append(weights @ values)
    return torch.cat(contexts, dim=-1)  # 2 x (t, d) -> (t, 2 * d)


Pair = tuple[Tensor, Tensor]


def _head(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, scale: float | None = None) -> Tensor:
    factor = w_q.shape[1] ** -0.5 if scale is None else scale
    return ((x @ w_q * factor) @ (x @ w_k).T).softmax(-1) @ (x @ w_v)


def _causal_head(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    scores = (x @ w_q * w_q.shape[1] ** -0.5) @ (x @ w_k).T
    return scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf).softmax(-1) @ (x @ w_v)


def _heads(x: Tensor, q: Pair, k: Pair, v: Pair, scale: float | None = None) -> Pair:
    return _head(x, q[0], k[0], v[0], scale), _head(x, q[1], k[1], v[1], scale)


def _weights(
    x: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    softmax: int = -1,
    times: int = 1,
    hidden: Callable[[Tensor], Tensor] = torch.zeros_like,
) -> Tensor:
    scores = (x @ w_q * w_q.shape[1] ** -0.5) @ (x @ w_k).T
    scores = scores.masked_fill(hidden(torch.ones_like(scores)).bool(), -torch.inf)
    for _ in range(times):
        scores = scores.softmax(softmax)
    return scores


def _changed(**change: Any) -> Callable[..., Tensor]:
    """Return two heads whose weights are computed otherwise; see `_weights`."""
    return lambda x, q, k, v: torch.cat([_weights(x, q[i], k[i], **change) @ (x @ v[i]) for i in (0, 1)], -1)


APART = "How many numbers should each row of the result have?"


def _pair(std: float) -> Callable[[InputGenerator, int, int], Pair]:
    return lambda rng, d_in, head_dim: tuple(rng.normal(d_in, head_dim, std=std * d_in**-0.5) for _ in range(2))


EXERCISE = FunctionExercise(
    two_heads,
    title="Two heads by hand",
    difficulty=2,
    minutes=7,
    prompt=(
        "One sentence, two heads, scaled scores, no mask. Each role comes as a pair of matrices, one per head, used as "
        "`x @ q_proj[0]`. Head 0's numbers come first in every row."
    ),
    hints=(
        "Write one head first, with `q_proj[0]`, `k_proj[0]`, `v_proj[0]`, and then the same with 1.",
        "A loop over 0 and 1 can't forget to change an index. Scale by the width of one head.",
        "`torch.cat([context_0, context_1], dim=-1)` puts them side by side.",
    ),
    inputs={"q_proj": _pair(2.0), "k_proj": _pair(2.0), "v_proj": _pair(3.0)},
    also=({"token": 1}, {"head_dim": 1}),
    draw_edges=({"token": "2*head_dim"},),
    arguments={
        "x": "token d_in",
        "q_proj": "d_in head_dim",
        "k_proj": "d_in head_dim",
        "v_proj": "d_in head_dim",
    },
    axes="token width",
    gradients=("x", "q_proj", "k_proj", "v_proj"),
    wrong="""
1): => 0):
    head 0 twice [heads-share-weights]
    ? Where does your code use `q_proj[1]`, `k_proj[1]` and `v_proj[1]`?
torch.cat(_heads(x, (q_proj[0], q_proj[0]), (k_proj[0], k_proj[0]), v_proj), -1)
    two heads that both use the weights of head 0 [heads-share-scores]
torch.cat(_heads(x, (q_proj[0], q_proj[0]), k_proj, v_proj), -1)
    two heads that share the queries of head 0 [projection-reused]
torch.cat(_heads(x, q_proj, (k_proj[0], k_proj[0]), v_proj), -1)
    two heads that share the keys of head 0 [projection-reused]
torch.cat(_heads(x, q_proj, k_proj, (v_proj[0], v_proj[0])), -1)
    two heads that share the values of head 0 [projection-reused]
(0, 1) => (1, 0)
    the heads in the wrong order: head 0 comes first
torch.stack(_heads(x, q_proj, k_proj, v_proj)).sum(0)
    the sum of the heads [heads-averaged]
    ? How many numbers should each row of the result have?
torch.stack(_heads(x, q_proj, k_proj, v_proj)).mean(0)
    the mean of the heads [heads-averaged]
    ? How many numbers should each row of the result have?
1)  # => 0)  #
    the heads one below the other; they should be side by side
    ? Along which axis do you join? What is a row?
torch.stack(_heads(x, q_proj, k_proj, v_proj))
    the heads on an axis of their own; they should be side by side
    ? What is the difference between `stack` and `cat`?
torch.stack(_heads(x, q_proj, k_proj, v_proj)).reshape(len(x), -1)
    the heads one below the other, cut into rows anew: a row holds two tokens of one head [merge-without-transpose]
torch.cat([_causal_head(x, q_proj[i], k_proj[i], v_proj[i]) for i in (0, 1)], -1)
    heads under a causal mask; this task hides no token
    ? Which tokens may a token see here?
torch.cat(_heads(x, q_proj, k_proj, v_proj, scale=(2 * q_proj[0].shape[1]) ** (-0.5)), -1)
    heads scaled by the width of both together [wrong-scale]
0.5 => 0.0
    heads without the division [missing-scale]
keys. => values.
    heads scored with the values [scores-from-values]
(dim=-1 => (dim=0
    heads with softmax over the queries [softmax-wrong-axis]
queries. => x.
    heads scaled by d_in, not by the width of one head [wrong-scale]
0.5 => 1.0
    heads whose scores are divided by head_dim, not by its square root [wrong-scale]
((queries * queries.shape[-1] ** -0.5) @ keys.T).softmax(dim=-1) => (queries * queries.shape[-1] ** (-0.5) @ keys.T).softmax(dim=-1).softmax(-1)
    heads with softmax taken twice [double-softmax]
((queries * queries.shape[-1] ** -0.5) @ keys.T).softmax(dim=-1) => queries * queries.shape[-1] ** (-0.5) @ keys.T
    heads without softmax [no-softmax]
_changed(hidden=lambda ones: ones.tril(-1))(x, q_proj, k_proj, v_proj)
    heads that see themselves and later tokens only; this task hides no token
    ? Which tokens may a token see here?
_changed(hidden=lambda ones: ones.tril())(x, q_proj, k_proj, v_proj)
    heads that see later tokens only, so that the last one sees nothing; this task hides no token
    ? Which tokens may a token see here?
torch.cat(_heads(x, k_proj, q_proj, v_proj), -1)
    heads in which queries and keys changed places: each token is asked where it should ask
    ? Which of the two stands on the left of the product?
values) => keys)
    heads whose weights are multiplied by the keys, not the values [projection-reused]
torch.stack(_heads(x, q_proj, k_proj, v_proj), -1).flatten(-2)
    elements of the two heads in turn; a head's elements should stay together
    ? Where should element 1 of head 0 stand in a row?
weights @ values => weights
    the heads' weights side by side, before they meet the values [weights-not-applied]
torch.cat(_heads(x, q_proj, k_proj[::-1], v_proj), -1)
    heads whose queries meet the keys of the other head
    ? Which keys do the queries of head 0 meet?
torch.cat(_heads(x, q_proj, k_proj, v_proj[::-1]), -1)
    heads whose weights multiply the values of the other head
    ? Which values do the weights of head 0 multiply?
1] => 0]
    heads scaled by the number of tokens [wrong-scale]
""",
)
