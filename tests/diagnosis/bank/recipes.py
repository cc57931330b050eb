"""Attention that makes one mistake on purpose, on given weights: what the output of some code is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from course_lib.attention import causal_keep


@dataclass(frozen=True)
class Weights:
    """The projections of a module, as matrices for `x @ W + b`.

    Attributes:
        q, k, v: (d_in, width over all heads); k and v may hold fewer heads.
        o: (width of the values over all heads, d_out), or None where there is no output projection.
        q_bias, k_bias, v_bias, o_bias: (width,), or None.
        num_heads: of the queries.
        num_kv_heads: of keys and values.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor | None
    num_heads: int
    num_kv_heads: int
    q_bias: Tensor | None = None
    k_bias: Tensor | None = None
    v_bias: Tensor | None = None
    o_bias: Tensor | None = None


@dataclass(frozen=True)
class Recipe:
    """How the steps of attention are done: the right way unless changed.

    Attributes:
        project: weights, x -> queries, keys, values, each (batch, token, width).
        split: (batch, token, width), heads -> (batch, head, token, head_dim).
        share: (batch, kv head, token, head_dim), query heads -> (batch, head, token, head_dim).
        scale: head_dim, width over all heads, tokens -> what scores are multiplied by.
        weigh: scores, keep -> weights, both (batch, head, query, key).
        mix: weights, values -> context (batch, head, query, head_dim).
        merge: context -> (batch, token, width).
        finish: weights, merged -> output.
        keep: tokens -> bool (query, key), True = may attend.
    """

    project: Callable[[Weights, Tensor], tuple[Tensor, Tensor, Tensor]]
    split: Callable[[Tensor, int], Tensor]
    share: Callable[[Tensor, int], Tensor]
    scale: Callable[[int, int, int], float]
    weigh: Callable[[Tensor, Tensor | None], Tensor]
    mix: Callable[[Tensor, Tensor], Tensor]
    merge: Callable[[Tensor], Tensor]
    finish: Callable[[Weights, Tensor], Tensor]
    keep: Callable[[int], Tensor]


def run(recipe: Recipe, weights: Weights, x: Tensor, *, causal: bool = True) -> Tensor:
    """Compute attention by a recipe.

    Args:
        recipe: RIGHT, or one of WRONG.
        weights: the projections.
        x: (batch, token, d_in).
        causal: whether the future is to be hidden.

    Returns:
        output (batch, token, d_out).
    """
    queries, keys, values = recipe.project(weights, x)
    queries = recipe.split(queries, weights.num_heads)
    keys = recipe.share(recipe.split(keys, weights.num_kv_heads), weights.num_heads)
    values = recipe.share(recipe.split(values, weights.num_kv_heads), weights.num_heads)
    num_tokens = x.shape[1]
    scale = recipe.scale(queries.shape[-1], weights.q.shape[1], num_tokens)
    scores = (queries * scale) @ keys.transpose(2, 3)
    keep = recipe.keep(num_tokens).to(x.device) if causal else None
    context = recipe.mix(recipe.weigh(scores, keep), values)
    return recipe.finish(weights, recipe.merge(context))


def _linear(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    return x @ matrix if bias is None else x @ matrix + bias


def _project(weights: Weights, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return (
        _linear(x, weights.q, weights.q_bias),
        _linear(x, weights.k, weights.k_bias),
        _linear(x, weights.v, weights.v_bias),
    )


def _split(x: Tensor, heads: int) -> Tensor:
    batch, num_tokens, width = x.shape
    return x.reshape(batch, num_tokens, heads, width // heads).transpose(1, 2)  # (b, t, h * d) -> (b, h, t, d)


def _view_only(x: Tensor, heads: int) -> Tensor:
    batch, num_tokens, width = x.shape
    return x.reshape(batch, heads, num_tokens, width // heads)


def _share(x: Tensor, heads: int) -> Tensor:
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def _tile(x: Tensor, heads: int) -> Tensor:
    return x.repeat(1, heads // x.shape[1], 1, 1)


def _softmax(scores: Tensor, keep: Tensor | None, *, fill: float = -torch.inf, dim: int = -1) -> Tensor:
    return (scores if keep is None else scores.masked_fill(~keep, fill)).softmax(dim=dim)


def _mask_afterwards(scores: Tensor, keep: Tensor | None) -> Tensor:
    weights = scores.softmax(dim=-1)
    return weights if keep is None else weights.masked_fill(~keep, 0.0)


def _no_softmax(scores: Tensor, keep: Tensor | None) -> Tensor:
    return scores if keep is None else scores.masked_fill(~keep, 0.0)


def _twice(scores: Tensor, keep: Tensor | None) -> Tensor:
    return _softmax(_softmax(scores, keep), keep)


def _merge(context: Tensor) -> Tensor:
    return context.transpose(1, 2).flatten(2)  # (b, h, t, d) -> (b, t, h, d) -> (b, t, h * d)


def _reshape_only(context: Tensor) -> Tensor:
    batch, heads, num_tokens, head_dim = context.shape
    return context.reshape(batch, num_tokens, heads * head_dim)


def _finish(weights: Weights, merged: Tensor) -> Tensor:
    return merged if weights.o is None else _linear(merged, weights.o, weights.o_bias)


RIGHT = Recipe(
    project=_project,
    split=_split,
    share=_share,
    scale=lambda head_dim, width, num_tokens: head_dim**-0.5,
    weigh=_softmax,
    mix=torch.matmul,
    merge=_merge,
    finish=_finish,
    keep=causal_keep,
)


def _roles(*order: int) -> Callable[[Weights, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Projections that feed other roles: (0, 2, 2) takes the values for keys, too."""
    return lambda weights, x: tuple(_project(weights, x)[role] for role in order)


def _everything(num_tokens: int) -> Tensor:
    return torch.ones(num_tokens, num_tokens, dtype=torch.bool)


def _diagonal(shift: int) -> Callable[[int], Tensor]:
    return lambda num_tokens: _everything(num_tokens).tril(shift)


# Each recipe makes one mistake; where it can be made in several ways, each has its own.
WRONG: dict[str, tuple[Recipe, ...]] = {
    "no-causal-mask": (replace(RIGHT, keep=_everything),),
    "mask-inverted": (replace(RIGHT, keep=lambda num_tokens: ~causal_keep(num_tokens)),),
    "mask-off-by-one": (replace(RIGHT, keep=_diagonal(1)), replace(RIGHT, keep=_diagonal(-1))),
    "mask-transposed": (replace(RIGHT, keep=lambda num_tokens: causal_keep(num_tokens).T),),
    "mask-after-softmax": (replace(RIGHT, weigh=_mask_afterwards),),
    "mask-with-zero": (replace(RIGHT, weigh=lambda scores, keep: _softmax(scores, keep, fill=0.0)),),
    "scores-from-values": (replace(RIGHT, project=_roles(0, 2, 2)),),
    "projection-reused": tuple(
        replace(RIGHT, project=_roles(*o)) for o in ((0, 0, 2), (1, 1, 2), (0, 1, 1), (0, 1, 0))
    ),
    "missing-scale": (replace(RIGHT, scale=lambda head_dim, width, num_tokens: 1.0),),
    "wrong-scale": (
        replace(RIGHT, scale=lambda head_dim, width, num_tokens: width**-0.5),
        replace(RIGHT, scale=lambda head_dim, width, num_tokens: 1.0 / head_dim),
        replace(RIGHT, scale=lambda head_dim, width, num_tokens: num_tokens**-0.5),
        replace(RIGHT, scale=lambda head_dim, width, num_tokens: head_dim**0.5),
    ),
    "softmax-wrong-axis": (
        replace(RIGHT, weigh=lambda scores, keep: _softmax(scores, keep, dim=-2)),
        replace(RIGHT, weigh=lambda scores, keep: _softmax(scores, keep, dim=1).nan_to_num()),
    ),
    "double-softmax": (
        replace(RIGHT, weigh=_twice),
        replace(RIGHT, weigh=lambda scores, keep: _softmax(scores, keep).softmax(dim=-1)),
    ),
    "no-softmax": (replace(RIGHT, weigh=_no_softmax),),
    "split-without-transpose": (replace(RIGHT, split=_view_only),),
    "merge-without-transpose": (replace(RIGHT, merge=_reshape_only),),
    "heads-share-scores": (
        replace(RIGHT, weigh=lambda scores, keep: _softmax(scores.sum(dim=1, keepdim=True).expand_as(scores), keep)),
        replace(RIGHT, weigh=lambda scores, keep: _softmax(scores[:, :1].expand_as(scores), keep)),
    ),
    "heads-averaged": (
        replace(RIGHT, merge=lambda context: _merge(context.mean(dim=1, keepdim=True).expand_as(context))),
        replace(RIGHT, merge=lambda context: _merge(context.sum(dim=1, keepdim=True).expand_as(context))),
    ),
    "output-projection-missing": (replace(RIGHT, finish=lambda weights, merged: merged),),
    "weights-not-applied": (replace(RIGHT, mix=lambda weights, values: values),),
    "kv-heads-tiled": (replace(RIGHT, share=_tile),),
    "kv-head-zero-only": (replace(RIGHT, share=lambda x, heads: _share(x[:, :1], heads)),),
}
