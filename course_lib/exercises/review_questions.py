"""The questions that `review` draws from: lesson -> functions that draw numbers and give (text, answer, why)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .input_generator import InputGenerator

Drawn = tuple[str, Any, str]


def _scale(rng: InputGenerator) -> Drawn:
    root = rng.integer(6) + 2
    return (
        f"Queries and keys of a head are {root**2} wide. By which number are its scores divided?",
        root,
        f"The root of head_dim: {root**2} ** 0.5 = {root}.",
    )


def _scores_shape(rng: InputGenerator) -> Drawn:
    batch, queries, keys, width = rng.sizes(4, 2, 9)
    return (
        f"`queries` is ({batch}, {queries}, {width}) and `keys` is ({batch}, {keys}, {width}). "
        "What is the shape of the scores?",
        (batch, queries, keys),
        "One score for each query and key of a sample: (batch, query, key).",
    )


def _row_sum(rng: InputGenerator) -> Drawn:
    tokens = rng.integer(7) + 3
    return (
        f"Attention weights have the shape ({tokens}, {tokens}), without dropout. What do all of them sum to?",
        tokens,
        f"Each of the {tokens} rows sums to 1.",
    )


def _visible(rng: InputGenerator) -> Drawn:
    tokens = rng.integer(5) + 4
    query = rng.integer(tokens - 1) + 1
    return (
        f"Under a causal mask of {tokens} tokens, how many keys may the query at index {query} attend to?",
        query + 1,
        f"Those at index 0 to {query}: itself and all before it.",
    )


def _hidden_score(rng: InputGenerator) -> Drawn:
    keys = rng.integer(4) + 3
    hidden = rng.integer(keys - 2) + 1  # two or more are left
    return (
        f"All {keys} scores of a row are equal; {hidden} of them {'is' if hidden == 1 else 'are'} replaced by minus "
        "infinity. How large is each attention weight that is left?",
        1 / (keys - hidden),
        f"Softmax shares 1 among the {keys - hidden} that are left.",
    )


def _kept_weight(rng: InputGenerator) -> Drawn:
    p = rng.choice([0.2, 0.5, 0.75])
    return (
        f"In training, dropout with p = {p} keeps a weight of 0.1. Which value does it have afterwards?",
        0.1 / (1 - p),
        f"What is kept grows by 1 / (1 - p) = {1 / (1 - p):g}.",
    )


def _padding_shape(rng: InputGenerator) -> Drawn:
    batch, heads, tokens = rng.sizes(3, 2, 9)
    return (
        f"Scores are ({batch}, {heads}, {tokens}, {tokens}). What is the shape of a padding mask, one that can "
        "differ from sample to sample, that fits them by broadcasting and has as few elements as possible?",
        (batch, 1, 1, tokens),
        "It depends on the sample and the key alone: (batch, 1, 1, key).",
    )


def _joined_width(rng: InputGenerator) -> Drawn:
    heads, width = rng.sizes(2, 2, 9)
    return (
        f"{heads} heads give contexts of (2, 5, {width}) each, side by side. What shape do they have then?",
        (2, 5, heads * width),
        "They are joined along the last axis.",
    )


def _output_projection(rng: InputGenerator) -> Drawn:
    heads, width = rng.sizes(2, 2, 9)
    return (
        f"The output projection joins {heads} heads of width {width} without a bias; d_out is the width of all heads. "
        "How many weights does it have?",
        (heads * width) ** 2,
        f"It maps {heads * width} numbers to {heads * width}.",
    )


def _stride(rng: InputGenerator) -> Drawn:
    a, b, c = rng.sizes(3, 2, 9)
    return (
        f"A contiguous tensor is ({a}, {b}, {c}). What are its strides?",
        (b * c, c, 1),
        "A stride is how many elements lie between neighbours along an axis.",
    )


def _transposed(rng: InputGenerator) -> Drawn:
    a, b, c = rng.sizes(3, 2, 9)
    return (
        f"`x` is contiguous, ({a}, {b}, {c}). What are the strides of `x.transpose(1, 2)`?",
        (b * c, 1, c),
        "A transpose exchanges strides and moves no element.",
    )


def _copies(rng: InputGenerator) -> Drawn:
    a, b, c = rng.sizes(3, 2, 9)
    return (
        f'`x` is contiguous, ({a}, {b}, {c}). Does `x.transpose(1, 2).reshape({a}, {b * c})` copy, "yes" or "no"?',
        "yes",
        "The elements of one row of the result don't lie side by side any more.",
    )


def _head_dim(rng: InputGenerator) -> Drawn:
    heads, width = rng.sizes(2, 2, 9)
    return (
        f"The weight split has d_out = {heads * width} and {heads} heads, its input 2 samples of 5 tokens. "
        "What is the shape of the queries after view and transpose?",
        (2, heads, 5, width),
        "(batch, head, token, head_dim).",
    )


def _head_columns(rng: InputGenerator) -> Drawn:
    heads, width = rng.sizes(2, 3, 9)
    head = rng.integer(heads - 1) + 1
    return (
        f"{heads} heads of width {width} share one projection. At which column does head {head} begin, counted from 0?",
        head * width,
        f"Each head before it takes {width} columns.",
    )


def _cache(rng: InputGenerator) -> Drawn:
    kv_heads, width, layers = rng.sizes(3, 2, 9)
    return (
        f"A model has {layers} layers with {kv_heads} kv heads of width {width}, and 2 bytes per number. "
        "How many bytes does its cache keep for one token?",
        2 * layers * kv_heads * width * 2,
        "Keys and values, in each layer and each kv head.",
    )


def _shared(rng: InputGenerator) -> Drawn:
    kv_heads, group = rng.sizes(2, 2, 5)
    head = rng.integer(kv_heads * group)
    return (
        f"{kv_heads * group} query heads share {kv_heads} kv heads. Which kv head does query head {head} read?",
        head // group,
        f"Neighbours share: {head} // {group}.",
    )


QUESTIONS: dict[str, tuple[Callable[[InputGenerator], Drawn], ...]] = {
    "01": (_scale, _scores_shape, _row_sum),
    "02": (_visible, _hidden_score, _kept_weight, _padding_shape),
    "03": (_joined_width, _output_projection),
    "04": (_stride, _transposed, _copies),
    "05": (_head_dim, _head_columns),
    "06": (_cache, _shared),
}
