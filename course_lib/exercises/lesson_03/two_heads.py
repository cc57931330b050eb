"""Two heads by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case, Wrong
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


def _draw(rng: InputGenerator) -> list[Case]:
    return [_case(rng, *sizes) for sizes in (*rng.size_rows(3, 3), (1, 3, 2), (4, 3, 1))]


def _case(rng: InputGenerator, num_tokens: int, d_in: int, head_dim: int) -> Case:
    pairs = [tuple(rng.normal(d_in, head_dim, std=std * d_in**-0.5) for _ in range(2)) for std in (2, 2, 3)]
    return Case((rng.normal(num_tokens, d_in), *pairs))


APART = "How many numbers should each row of the result have?"

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
    draw=_draw,
    draw_edges=lambda rng: [_case(rng, 6, 4, 3)],
    arguments={
        "x": "token d_in",
        "q_proj": "d_in head_dim",
        "k_proj": "d_in head_dim",
        "v_proj": "d_in head_dim",
    },
    axes="token width",
    gradients=("x", "q_proj", "k_proj", "v_proj"),
    wrong=(
        Wrong(
            "head 0 twice",
            lambda x, q, k, v: torch.cat([_head(x, q[0], k[0], v[0])] * 2, -1),
            "heads-share-weights",
            "Where does your code use `q_proj[1]`, `k_proj[1]` and `v_proj[1]`?",
        ),
        Wrong(
            "two heads that both use the weights of head 0",
            lambda x, q, k, v: torch.cat(_heads(x, (q[0], q[0]), (k[0], k[0]), v), -1),
            "heads-share-scores",
        ),
        Wrong(
            "two heads that share the queries of head 0",
            lambda x, q, k, v: torch.cat(_heads(x, (q[0], q[0]), k, v), -1),
            "projection-reused",
        ),
        Wrong(
            "two heads that share the keys of head 0",
            lambda x, q, k, v: torch.cat(_heads(x, q, (k[0], k[0]), v), -1),
            "projection-reused",
        ),
        Wrong(
            "two heads that share the values of head 0",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, (v[0], v[0])), -1),
            "projection-reused",
        ),
        Wrong(
            "the heads in the wrong order: head 0 comes first",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, v)[::-1], -1),
        ),
        Wrong(
            "the sum of the heads", lambda x, q, k, v: torch.stack(_heads(x, q, k, v)).sum(0), "heads-averaged", APART
        ),
        Wrong(
            "the mean of the heads", lambda x, q, k, v: torch.stack(_heads(x, q, k, v)).mean(0), "heads-averaged", APART
        ),
        Wrong(
            "the heads one below the other; they should be side by side",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, v)),
            hint="Along which axis do you join? What is a row?",
        ),
        Wrong(
            "the heads on an axis of their own; they should be side by side",
            lambda x, q, k, v: torch.stack(_heads(x, q, k, v)),
            hint="What is the difference between `stack` and `cat`?",
        ),
        Wrong(
            "the heads one below the other, cut into rows anew: a row holds two tokens of one head",
            lambda x, q, k, v: torch.stack(_heads(x, q, k, v)).reshape(len(x), -1),
            "merge-without-transpose",
        ),
        Wrong(
            "heads under a causal mask; this task hides no token",
            lambda x, q, k, v: torch.cat([_causal_head(x, q[i], k[i], v[i]) for i in (0, 1)], -1),
            hint="Which tokens may a token see here?",
        ),
        Wrong(
            "heads scaled by the width of both together",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, v, scale=(2 * q[0].shape[1]) ** -0.5), -1),
            "wrong-scale",
        ),
        Wrong(
            "heads without the division",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, v, scale=1.0), -1),
            "missing-scale",
        ),
        Wrong(
            "heads scored with the values", lambda x, q, k, v: torch.cat(_heads(x, q, v, v), -1), "scores-from-values"
        ),
        Wrong("heads with softmax over the queries", _changed(softmax=0), "softmax-wrong-axis"),
        Wrong(
            "heads scaled by d_in, not by the width of one head",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, v, scale=x.shape[1] ** -0.5), -1),
            "wrong-scale",
        ),
        Wrong(
            "heads whose scores are divided by head_dim, not by its square root",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, v, scale=1 / q[0].shape[1]), -1),
            "wrong-scale",
        ),
        Wrong("heads with softmax taken twice", _changed(times=2), "double-softmax"),
        Wrong("heads without softmax", _changed(times=0), "no-softmax"),
        Wrong(
            "heads that see themselves and later tokens only; this task hides no token",
            _changed(hidden=lambda ones: ones.tril(-1)),
            hint="Which tokens may a token see here?",
        ),
        Wrong(
            "heads that see later tokens only, so that the last one sees nothing; this task hides no token",
            _changed(hidden=lambda ones: ones.tril()),
            hint="Which tokens may a token see here?",
        ),
        Wrong(
            "heads in which queries and keys changed places: each token is asked where it should ask",
            lambda x, q, k, v: torch.cat(_heads(x, k, q, v), -1),
            hint="Which of the two stands on the left of the product?",
        ),
        Wrong(
            "heads whose weights are multiplied by the keys, not the values",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, k), -1),
            "projection-reused",
        ),
        Wrong(
            "elements of the two heads in turn; a head's elements should stay together",
            lambda x, q, k, v: torch.stack(_heads(x, q, k, v), -1).flatten(-2),
            hint="Where should element 1 of head 0 stand in a row?",
        ),
        Wrong(
            "the heads' weights side by side, before they meet the values",
            lambda x, q, k, v: torch.cat([_weights(x, q[i], k[i]) for i in (0, 1)], -1),
            "weights-not-applied",
        ),
        Wrong(
            "heads whose queries meet the keys of the other head",
            lambda x, q, k, v: torch.cat(_heads(x, q, k[::-1], v), -1),
            hint="Which keys do the queries of head 0 meet?",
        ),
        Wrong(
            "heads whose weights multiply the values of the other head",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, v[::-1]), -1),
            hint="Which values do the weights of head 0 multiply?",
        ),
        Wrong(
            "heads scaled by the number of tokens",
            lambda x, q, k, v: torch.cat(_heads(x, q, k, v, scale=len(x) ** -0.5), -1),
            "wrong-scale",
        ),
    ),
)
