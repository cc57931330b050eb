"""Compute what attention gives with one known mistake, from the weights of the learner's own module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from .attention_steps import RIGHT, KnownMistake, masked
from .layouts import Projections
from .sizes import Sizes
from .wrong_caches import masks_of_wrong_caches
from .wrong_heads import of_head_counts, of_heads, of_kv_heads, of_output


def known_mistakes(sizes: Sizes, causal: bool, has_out_proj: bool, steps: Sequence[int] = ()) -> Iterator[KnownMistake]:
    """Yield the mistakes that a class of this kind may have; steps are the numbers of tokens of the pieces of x."""
    for equals, mistake, hint, keep in masks_of_wrong_caches(steps):
        weigh = partial(_masked_by, keep)
        yield KnownMistake(equals, replace(RIGHT, weigh=weigh), (mistake,) if mistake else (), hint)
    yield from _of_scales(sizes)
    yield from _of_roles()
    yield from _of_softmax()
    yield from _of_masks() if causal else _of_no_mask()
    if sizes.num_heads > 1:
        yield from of_heads()
        yield from of_head_counts(sizes)
    if sizes.num_kv_heads < sizes.num_heads:
        yield from of_kv_heads()
    if has_out_proj:
        yield from of_output()


def _of_scales(sizes: Sizes) -> Iterator[KnownMistake]:
    def scaled(equals: str, mistake: str, scale: Callable[[Sizes, int], float]) -> KnownMistake:
        return KnownMistake(equals, replace(RIGHT, scale=scale), (mistake,))

    yield scaled("attention without the division by the root of head_dim", "missing-scale", lambda s, t: 1.0)
    yield scaled(
        "attention with scores divided by head_dim, not by its root", "wrong-scale", lambda s, t: 1 / s.head_dim
    )
    yield scaled(
        "attention with scores multiplied by the root of head_dim", "wrong-scale", lambda s, t: s.head_dim**0.5
    )
    yield scaled("attention with scores divided by the root of d_out", "wrong-scale", lambda s, t: s.d_out**-0.5)
    yield scaled("attention with scores divided by the root of d_in", "wrong-scale", lambda s, t: s.d_in**-0.5)
    yield scaled(
        "attention with scores divided by the root of num_heads", "wrong-scale", lambda s, t: s.num_heads**-0.5
    )
    yield scaled(
        "attention with scores divided by the root of the number of tokens", "wrong-scale", lambda s, t: t**-0.5
    )
    yield scaled("attention with the mean of the products, scaled again", "wrong-scale", lambda s, t: s.head_dim**-1.5)
    if sizes.own_head_dim and sizes.d_out // sizes.num_heads not in (0, sizes.head_dim):
        yield scaled(
            "attention with scores divided by the root of d_out // num_heads, which is not head_dim here",
            "wrong-scale",
            lambda s, t: (s.d_out // s.num_heads) ** -0.5,
        )
    if sizes.num_kv_heads > 1:
        yield scaled(
            "attention with scores divided by the root of num_kv_heads",
            "wrong-scale",
            lambda s, t: s.num_kv_heads**-0.5,
        )


def _of_roles() -> Iterator[KnownMistake]:
    roles = {
        "attention scored with the values instead of the keys": ((0, 2, 2), "scores-from-values"),
        "attention whose weights are multiplied by the keys, not the values": ((0, 1, 1), "projection-reused"),
        "attention that compares the queries with themselves": ((0, 0, 2), "projection-reused"),
        "attention that compares the keys with themselves": ((1, 1, 2), "projection-reused"),
        "attention whose weights are multiplied by the queries": ((0, 1, 0), "projection-reused"),
    }
    for equals, (which, mistake) in roles.items():
        yield KnownMistake(equals, replace(RIGHT, roles=which), (mistake,))
    exchanged = {
        "queries and keys": ((1, 0, 2), "Which of the two stands on the left of the product?"),
        "keys and values": ((0, 2, 1), "Which of the two do the weights multiply?"),
    }
    for both, (which, hint) in exchanged.items():
        yield KnownMistake(f"attention with {both} exchanged", replace(RIGHT, roles=which), (), hint)


def _of_softmax() -> Iterator[KnownMistake]:
    def weighed(equals: str, mistake: str, weigh: Callable[[Tensor, Tensor], Tensor]) -> KnownMistake:
        return KnownMistake(equals, replace(RIGHT, weigh=weigh), (mistake,))

    def hidden(scores: Tensor, keep: Tensor) -> Tensor:
        return scores.masked_fill(~keep, -torch.inf)

    yield weighed(
        "attention with softmax over the queries", "softmax-wrong-axis", lambda s, k: hidden(s, k).softmax(-2)
    )
    yield weighed("attention with softmax over the heads", "softmax-wrong-axis", lambda s, k: hidden(s, k).softmax(1))
    yield weighed("attention with softmax over the batch", "softmax-wrong-axis", lambda s, k: hidden(s, k).softmax(0))
    yield weighed("attention without softmax", "no-softmax", lambda s, k: s.masked_fill(~k, 0.0))
    yield KnownMistake(
        "attention whose weights are transposed before they are multiplied by the values",
        replace(RIGHT, weigh=lambda s, k: masked(s, k).mT),
        (),
        "A row of the weights is one query. Which axis of the weights meets the tokens of the values?",
    )
    yield weighed("attention with softmax taken twice", "double-softmax", lambda s, k: masked(s, k).softmax(-1))


def _of_masks() -> Iterator[KnownMistake]:
    def weighed(equals: str, mistakes: tuple[str, ...], weigh: Callable[[Tensor, Tensor], Tensor]) -> KnownMistake:
        return KnownMistake(equals, replace(RIGHT, weigh=weigh), mistakes)

    yield weighed("attention without a mask", ("no-causal-mask", "mask-discarded"), lambda s, k: s.softmax(-1))
    yield weighed("attention to later tokens only", ("mask-inverted",), lambda s, k: masked(s, ~k))
    yield weighed(
        "attention under the transposed mask", ("mask-transposed", "mask-inverted"), lambda s, k: masked(s, k.mT)
    )
    yield weighed(
        "attention that sees one token too many",
        ("mask-off-by-one",),
        lambda s, k: masked(s, torch.ones_like(k).tril(1)),
    )
    yield weighed(
        "attention that hides each token from itself",
        ("mask-off-by-one",),
        lambda s, k: masked(s, torch.ones_like(k).tril(-1)),
    )
    yield weighed("attention masked after softmax", ("mask-after-softmax",), lambda s, k: s.softmax(-1) * k)
    yield weighed("attention whose hidden scores are 0", ("mask-with-zero",), lambda s, k: (s * k).softmax(-1))
    yield weighed(
        "attention whose hidden scores are 1", ("mask-with-zero",), lambda s, k: s.masked_fill(~k, 1).softmax(-1)
    )
    for value in (-1, -5, -10, -20, -50, -100):
        yield weighed(
            f"attention whose hidden scores are {value}: softmax gives them weight beside scores as low",
            (),
            _filled(value),
        )
    for value in (-20, -30, -50, -100):
        yield weighed(
            f"attention with {value} added to the hidden scores: a hidden score that was high keeps a weight",
            (),
            lambda s, k, value=value: (s + value * ~k).softmax(-1),
        )
    yield weighed("softmax under the mask, and without softmax", ("no-softmax",), lambda s, k: s * k)


def _masked_by(own: Tensor, scores: Tensor, _: Tensor) -> Tensor:
    return masked(scores, own)


def _filled(value: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, keep: scores.masked_fill(~keep, value).softmax(-1)


def _of_no_mask() -> Iterator[KnownMistake]:
    yield KnownMistake(
        "attention under a causal mask; this task hides no token",
        replace(RIGHT, weigh=lambda s, k: masked(s, torch.ones_like(k).tril())),
        (),
        "Which tokens may a token see here?",
    )


def find_mistake(
    projected: list[Projections],
    result: Tensor,
    sizes: Sizes,
    causal: bool,
    has_out_proj: bool,
    steps: Sequence[int] = (),
) -> KnownMistake | None:
    """Find the mistake that gives a module's result in one of its likeliest layouts."""
    for known in known_mistakes(sizes, causal, has_out_proj, steps):
        for layout in projected:
            try:
                output = known.attention.output(layout, sizes, causal)
            except (RuntimeError, IndexError):  # the mistake is impossible for these sizes
                continue
            same = output.shape == result.shape
            if same and torch.allclose(output, result.to(output.dtype), rtol=1e-6, atol=1e-6, equal_nan=True):
                return known
    return None
