"""The questions that `review` draws from: lesson -> functions that draw numbers and give (text, answer, why)."""

import math
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


def _same_distance(rng: InputGenerator) -> Drawn:
    key, back, shift = rng.sizes(3, 2, 9)
    return (
        f"A query at position {key + back} and a key at position {key} are rotated. The same query now stands at "
        f"position {key + back + shift}. At which position does the same key get the same score?",
        key + shift,
        f"The score depends on the distance alone, which stays {back}.",
    )


def _padding(rng: InputGenerator) -> Drawn:
    lengths = rng.sizes(3, 2, 9)
    return (
        f"Texts of {lengths[0]}, {lengths[1]} and {lengths[2]} tokens become one batch. How many of its tokens "
        "are padding?",
        3 * max(lengths) - sum(lengths),
        f"Each row is as long as the longest text, {max(lengths)}.",
    )


def _cross_scores(rng: InputGenerator) -> Drawn:
    batch, heads, queries, keys = rng.sizes(4, 2, 9)
    return (
        f"In cross-attention with {heads} heads, {batch} samples of {queries} tokens attend to {keys} tokens of "
        "another "
        "text each. What is the shape of the scores?",
        (batch, heads, queries, keys),
        "(batch, head, query, key): queries come from one text, keys from the other.",
    )


def _next_position(rng: InputGenerator) -> Drawn:
    prompt, written = rng.sizes(2, 3, 9)
    return (
        f"A model with a cache has read a prompt of {prompt} tokens and then {written} tokens that it wrote itself. "
        "At which position, counted from 0, is the next token rotated?",
        prompt + written,
        f"The {prompt + written} tokens in the cache have the positions 0 to {prompt + written - 1}.",
    )


def _rolling(rng: InputGenerator) -> Drawn:
    window, turns, rest = rng.sizes(3, 2, 9)
    token = turns * (window + 8) + rest
    return (
        f"A rolling cache has {window + 8} slots, without sinks. Into which slot, from 0 on, goes the token at "
        f"index {token}?",
        token % (window + 8),
        f"{token} modulo {window + 8}.",
    )


def _pages(rng: InputGenerator) -> Drawn:
    size, *full = rng.sizes(3, 3, 9)
    lengths = [size * pages + 1 for pages in full]
    return (
        f"A cache is cut into pages of {size} tokens. How many pages do two texts of {lengths[0]} and "
        f"{lengths[1]} tokens take, if they share none?",
        sum(full) + 2,
        "Each text begins a page of its own, and one token of each lies alone in its last page.",
    )


def _packed(rng: InputGenerator) -> Drawn:
    lengths, index = rng.sizes(3, 3, 9), rng.integer(3)
    return (
        f"Texts of {lengths[0]}, {lengths[1]} and {lengths[2]} tokens are packed into one row. Which position does the "
        f"token at index {lengths[0] + lengths[1] + index} of the row have in its own text?",
        index,
        f"The third text begins at index {lengths[0] + lengths[1]}.",
    )


def _mean_ablation(rng: InputGenerator) -> Drawn:
    shape = tuple(rng.sizes(4, 2, 9))
    return (
        f"`values` is {shape}: (batch, head, token, head_dim). Head 0 is removed by mean ablation, with one mean over "
        "all samples and tokens. How many different numbers do its values hold then?",
        shape[3],
        f"One mean for each of the {shape[3]} columns, the same for every sample and token.",
    )


def _rescaled(rng: InputGenerator) -> Drawn:
    low, more = rng.integer(5), rng.integer(3) + 1
    return (
        f"The largest score that online softmax has seen is {low}, and the largest of the next tile is {low + more}. "
        "By which number is the running sum multiplied before the tile is added?",
        math.exp(-more),
        f"e to the power of the old maximum minus the new one, -{more}.",
    )


def _changed_rows(rng: InputGenerator) -> Drawn:
    tokens = rng.integer(5) + 4
    changed = rng.integer(tokens - 1) + 1
    return (
        f"In causal attention over {tokens} tokens, the token at index {changed} is changed. How many rows of "
        "the output "
        "may differ?",
        tokens - changed,
        f"Its own row and those behind it, {changed} to {tokens - 1}.",
    )


def _copies_of_kv_head(rng: InputGenerator) -> Drawn:
    kv_heads, copies = rng.sizes(2, 2, 9)
    return (
        f"The query heads of a model with {kv_heads} kv heads are cut evenly across {kv_heads * copies} "
        "devices. How many "
        "devices keep the cache of one kv head?",
        copies,
        f"{kv_heads * copies} devices share {kv_heads} kv heads.",
    )


QUESTIONS: dict[str, tuple[Callable[[InputGenerator], Drawn], ...]] = {
    "01": (_scale, _scores_shape, _row_sum),
    "02": (_visible, _hidden_score, _kept_weight, _padding_shape),
    "03": (_joined_width, _output_projection),
    "04": (_stride, _transposed, _copies),
    "05": (_head_dim, _head_columns),
    "06": (_cache, _shared),
    "07": (_same_distance,),
    "08": (_padding, _cross_scores),
    "09": (_next_position,),
    "10": (_rolling,),
    "11": (_pages,),
    "12": (_packed,),
    "13": (_mean_ablation,),
    "14": (_rescaled,),
    "15": (_changed_rows,),
    "16": (_copies_of_kv_head,),
}
