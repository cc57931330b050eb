"""Every hand-drawn picture with unusual labels and numbers of heads: nothing is cut, nothing overlaps, all is said."""

import pytest
import torch

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention, causal_keep
from course_lib.pictures import (
    draw_attention,
    draw_heads,
    draw_kv_cache,
    draw_kv_sharing,
    draw_matrix_product,
    draw_projections,
    draw_wrong_view,
    layout_steps,
    memory_row,
)
from course_lib.recorder import record

from .picture_checks import check_picture, texts_of

T, D, D_IN = 5, 3, 7
LABELS = {
    "none": None,
    "long": ["antidisestablishmentarianism " * 3] * T,
    "wide": ["大きな夢", "夢を見て", "そのため", "に働く人", "たちへ"],
    "twice": ["the", "the", "cat", "cat", "cat"],
    "empty": ["", " ", "", ".", ""],
    "markup": ["<b>", "&amp;", '"', "'", "</svg>"],
    "emoji": ["🙂🙂", "👩‍👩‍👧", "e\u0301", "\u200b", "🇫🇷"],
    "indices": range(T),
}


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 30


def split_and_merge(num_heads):
    def code(queries):
        by_head = queries.view(2, T, num_heads, D).transpose(1, 2)
        return by_head.mT.contiguous(), by_head.transpose(1, 2).reshape(2, T, num_heads * D)

    return record(code, numbers(2, T, num_heads * D))


def forms(num_heads):
    torch.manual_seed(0)
    kv_heads = num_heads // 2 if num_heads % 2 == 0 else 1
    return {
        "many": MultiHeadAttention(D_IN, num_heads * D, num_heads),
        "groups": GroupedQueryAttention(D_IN, num_heads * D, num_heads, kv_heads),
        "one": MultiQueryAttention(D_IN, num_heads * D, num_heads),
    }


def by_head(num_heads, kv_heads):
    return (numbers(2, n, T, D, seed=seed) for seed, n in enumerate((num_heads, kv_heads, kv_heads)))


def memory(heads, words):
    queries = numbers(2, T, heads * D)
    halves = queries.view(2, T, heads, D).transpose(1, 2)
    return memory_row(queries, halves, halves.contiguous(), words=words, num_heads=heads, highlight=(1, T - 1, -1))


def product(heads, words):
    return draw_matrix_product(
        numbers(2, T, 5), numbers(5, heads * D, seed=1), words=words, num_heads=heads, highlight=(0, 4, D - 1)
    )


PICTURES = {
    "matrix product": product,
    "projections": lambda heads, words: draw_projections(
        numbers(2, T, D_IN).float(), forms(heads)["groups"], words=words
    ),
    "heads": lambda heads, words: draw_heads(*by_head(heads, 1), words=words),
    "attention": lambda heads, words: draw_attention(*by_head(heads, heads), keep=causal_keep(T), words=words),
    "layout": lambda heads, words: layout_steps(split_and_merge(heads), words=words),
    "memory": memory,
    "kv sharing": lambda heads, words: draw_kv_sharing(forms(heads), numbers(1, T, D_IN).float()),
    "kv cache": lambda heads, words: draw_kv_cache(forms(heads), numbers(1, T, D_IN).float(), words=words),
}


@pytest.mark.one_in(36)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("num_heads", [1, 2, 7, 12])
@pytest.mark.parametrize("kind", PICTURES)
def test_every_picture_is_readable(kind, num_heads, labels):
    picture = PICTURES[kind](num_heads, LABELS[labels])
    check_picture(picture, largest=120_000)
    for step in picture.steps:
        check_picture(step, largest=50_000)
    if labels in ("long", "wide", "twice") and kind in ("layout", "kv cache", "attention"):
        assert LABELS[labels][-1] in picture.description  # a label that is cut in the drawing is whole in words


@pytest.mark.one_in(6)
@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("num_heads", [2, 3, 12])
def test_the_wrong_view_is_readable(num_heads, labels):
    picture = draw_wrong_view(numbers(2, T, num_heads * D), num_heads=num_heads, words=LABELS[labels])
    check_picture(picture)


@pytest.mark.slow
def test_markup_in_labels_stays_text():
    picture = PICTURES["layout"](2, LABELS["markup"])
    assert set(LABELS["markup"]) <= set(texts_of(picture.svg))
    assert "<b>" not in picture._repr_html_()


def test_the_same_labels_beside_each_other_stay_two():
    shown = texts_of(PICTURES["attention"](2, LABELS["twice"]).svg)
    assert shown.count("the") == 2 * 2 * 3  # rows of queries, columns of keys and of weights, in two heads
    assert shown.count("cat") == 2 * 3 * 3


def test_several_samples_and_long_numbers_are_drawn():
    picture = draw_matrix_product(numbers(2, 9, 5) * 1e4, numbers(5, 13) * 1e-6)
    check_picture(picture, largest=40_000)
    assert "(9, 5), 8 by 5 drawn" in texts_of(picture.svg)
