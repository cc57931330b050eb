"""Two heads by hand, and W^O."""

from __future__ import annotations

import torch
from torch import Tensor

from ..functions import FunctionJudge, Wrong
from ..inputs import numbers


def _head(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, scale: float | None = None) -> Tensor:
    scale = w_q.shape[1] ** -0.5 if scale is None else scale
    return ((x @ w_q * scale) @ (x @ w_k).T).softmax(-1) @ (x @ w_v)


def _heads(x: Tensor, *projections: tuple[Tensor, Tensor], scale: float | None = None) -> tuple[Tensor, Tensor]:
    return tuple(_head(x, *(matrices[i] for matrices in projections), scale=scale) for i in (0, 1))


def _pair(d_in: int, head_dim: int, seed: int, spread: float) -> tuple[Tensor, Tensor]:
    return numbers(d_in, head_dim, seed=seed, spread=spread), numbers(d_in, head_dim, seed=seed + 50, spread=spread)


def _projections(num_tokens: int, d_in: int, head_dim: int) -> tuple:
    spreads = (0.7, 0.7, 1.0)
    return numbers(num_tokens, d_in), *(_pair(d_in, head_dim, 1 + at, spread) for at, spread in enumerate(spreads))


TWO_HEADS = FunctionJudge(
    reference=lambda x, q, k, v: torch.cat(_heads(x, q, k, v), dim=-1),
    inputs=lambda: [_projections(5, 7, 3), _projections(4, 6, 2)],
    axes="token width",
    wrong=(
        Wrong(
            "head 0 twice",
            lambda x, q, k, v: torch.cat([_head(x, q[0], k[0], v[0])] * 2, -1),
            "heads-share-weights",
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
        Wrong("the sum of the heads", lambda x, q, k, v: sum(_heads(x, q, k, v)), "heads-averaged"),
        Wrong("the mean of the heads", lambda x, q, k, v: sum(_heads(x, q, k, v)) / 2, "heads-averaged"),
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
    ),
)


def _mix(contexts: list[Tensor], w_o: Tensor) -> Tensor:
    return torch.cat(contexts, -1) @ w_o.T


def _contexts(batch: int, num_tokens: int, num_heads: int, head_dim: int, d_out: int) -> tuple[list[Tensor], Tensor]:
    heads = [numbers(batch, num_tokens, head_dim, seed=head) for head in range(num_heads)]
    return heads, numbers(d_out, num_heads * head_dim)


MIX_HEADS = FunctionJudge(
    reference=_mix,
    inputs=lambda: [_contexts(2, 5, 3, 4, 12), _contexts(3, 4, 2, 5, 7)],
    axes="batch token d_out",
    wrong=(
        Wrong("the heads side by side, without W^O", lambda c, w: torch.cat(c, -1), "output-projection-missing"),
        Wrong("the heads in reverse order, mixed", lambda c, w: _mix(c[::-1], w), hint="Whose are the first columns?"),
        Wrong(
            "the first head alone, mixed",
            lambda c, w: c[0] @ w[:, : c[0].shape[-1]].T,
            hint="How many heads reach the output?",
        ),
        Wrong(
            "the last head alone, mixed: each turn of the loop replaces what was there",
            lambda c, w: c[-1] @ w[:, -c[0].shape[-1] :].T,
            hint="In the loop, is the next head added or put in place of the others?",
        ),
        Wrong(
            "the mean of what the heads give; it should be their sum",
            lambda c, w: _mix(c, w) / len(c),
            "heads-averaged",
        ),
        Wrong(
            "every head mixed by the columns of head 0",
            lambda c, w: sum(one @ w[:, : one.shape[-1]].T for one in c),
            "heads-share-weights",
        ),
        Wrong(
            "numbers of the heads taken in turn; a head's numbers should stay together",
            lambda c, w: torch.stack(c, -1).flatten(-2) @ w.T,
            "merge-without-transpose",
        ),
        Wrong("the heads one below the other in the batch", lambda c, w: torch.cat(c)),
    ),
)
