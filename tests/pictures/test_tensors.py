"""Pictures of products: the numbers that stand there are those of an independent computation."""

import pytest
import torch
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    SingleHeadAttention,
    attend,
    causal_keep,
)
from course_lib.pictures import draw_attention, draw_heads, draw_matrix_product, draw_projections
from course_lib.pictures.text import number_text

from .picture_checks import TYPE, VALUE, check_picture, texts_of


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WORDS = ("one", "two", "three", "four")


def test_a_product_shows_all_three_matrices_and_the_sum_of_one_number():
    left, right = numbers(4, 3), numbers(3, 6, seed=1)
    picture = draw_matrix_product(left, right, words=WORDS, num_heads=2, highlight=(2, 4))
    check_picture(picture)
    shown = texts_of(picture.svg)
    result = left.numpy() @ right.numpy()
    for table in (left.numpy(), right.numpy(), result):
        for number in table.flatten():
            assert number_text(number, decimals=True) in shown
    assert result[2, 4] == pytest.approx(sum(left[2, i].item() * right[i, 4].item() for i in range(3)))
    factors = [[number_text(number.item(), decimals=True) for number in (left[2, i], right[i, 4])] for i in range(3)]
    assert any(two.startswith("-") for _, two in factors)
    terms = [f"{a} · ({b})" if b.startswith("-") else f"{a} · {b}" for a, b in factors]
    assert (
        f"{' + '.join(terms)} = {number_text(result[2, 4], decimals=True)}".replace("+ -", "− ").replace("-", "−")
        in picture.description
    )
    assert "Columns 0 to 2 are head 0, 3 to 5 are head 1" in picture.description
    assert shown.count("head 0") == shown.count("head 1") == 2


def test_a_batch_shows_its_first_sample_and_says_so():
    batch = numbers(2, 4, 3)
    picture = draw_matrix_product(batch, numbers(3, 5, seed=1))
    assert picture.svg == draw_matrix_product(batch[0], numbers(3, 5, seed=1)).svg
    assert "Sample 0 of 2 is drawn." in picture.description


def test_a_large_product_is_drawn_in_part_and_says_so():
    picture = draw_matrix_product(numbers(10, 12), numbers(12, 9, seed=1))
    check_picture(picture, largest=25_000)
    assert {"(10, 12), 8 by 5 drawn", "(12, 9), 8 by 5 drawn", "(10, 9), 8 by 5 drawn"} <= set(texts_of(picture.svg))


def test_swapped_operands_change_the_picture():
    square, other = numbers(3, 3), numbers(3, 3, seed=1)
    assert draw_matrix_product(square, other).svg != draw_matrix_product(other, square).svg


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "words"),
    [
        ((numbers(4, 3), numbers(4, 3)), {}, VALUE, r"left \(4, 3\) and right \(4, 3\) can't be multiplied"),
        (([1], numbers(1, 1)), {}, TYPE, "left must be a tensor, got list"),
        ((numbers(4, 3), numbers(3)), {}, VALUE, r"right must be \(d_in, width\)"),
        ((numbers(4, 0), numbers(0, 3)), {}, VALUE, r"left has the shape \(4, 0\) and no element"),
        ((numbers(4, 3).to("meta"), numbers(3, 2)), {}, VALUE, "left is on the meta device and holds no numbers"),
        ((numbers(4, 3), numbers(3, 5)), {"num_heads": 2}, VALUE, "num_heads=2 does not divide the width 5"),
        (
            (numbers(4, 3), numbers(3, 5)),
            {"highlight": (4, 0)},
            VALUE,
            r"highlight=\(4, 0\) is not an index of the result, \(4, 5\)",
        ),
        ((numbers(9, 3), numbers(3, 5)), {"highlight": (8, 0)}, VALUE, "outside the 8 by 8 elements that are drawn"),
        ((numbers(4, 3), numbers(3, 5)), {"words": ("a",)}, VALUE, "words has 1 labels for 4 tokens"),
    ],
)
def test_what_can_not_be_drawn_is_refused(arguments, options, kind, words):
    with pytest.raises(kind, match=words):
        draw_matrix_product(*arguments, **options)


@pytest.mark.parametrize(
    ("module", "notes"),
    [
        (MultiHeadAttention(5, 6, 3), ["(4, 6)"]),
        (GroupedQueryAttention(5, 8, 4, num_kv_heads=2), ["(4, 8)", "(4, 4)"]),
        (MultiQueryAttention(5, 8, 4, bias=True), ["(4, 8)", "(4, 2), one for all 4 heads"]),
        (SingleHeadAttention(5, 3), ["(4, 3)"]),
    ],
)
def test_three_projections_shows_what_the_module_gives(module, notes):
    x = numbers(2, 4, 5).float()
    picture = draw_projections(x, module, words=WORDS)
    check_picture(picture)
    shown = texts_of(picture.svg)
    for part in (module.q_proj, module.k_proj, module.v_proj):
        for number in part(x)[0].flatten().tolist():
            assert number_text(number, decimals=True) in shown
    assert set(notes) <= set(shown)
    assert module.training and module.q_proj.weight.grad is None


def test_a_module_without_projections_is_refused():
    with pytest.raises(TypeError, match=r"module has no nn\.Linear called q_proj"):
        draw_projections(numbers(1, 4, 5), nn.Linear(5, 5))


def test_attention_in_heads_shows_scores_that_were_softmaxed_by_hand():
    q, k, v = numbers(1, 2, 4, 3), numbers(1, 2, 4, 3, seed=1), numbers(1, 2, 4, 2, seed=2)
    picture = draw_attention(q, k, v, keep=causal_keep(4), words=WORDS)
    check_picture(picture)
    shown = texts_of(picture.svg)
    for head in range(2):
        for query in range(4):
            scores = [float(q[0, head, query] @ k[0, head, key]) / 3**0.5 for key in range(query + 1)]
            powers = torch.tensor(scores, dtype=torch.float64).exp()
            for weight in (powers / powers.sum()).tolist():
                assert number_text(weight, decimals=True) in shown
            mixed = (powers / powers.sum()) @ v[0, head, : query + 1]
            assert all(number_text(number, decimals=True) in shown for number in mixed.tolist())
    assert shown.count("·") == 2 * 6  # the hidden cells of two heads
    assert "Cells with a dot are hidden." in picture.description


@pytest.mark.parametrize("axes", [(4,), (4, 4), (2, 4, 4), (2, 1, 4), (1, 2, 4, 4), (1, 1, 4, 4)])
def test_every_head_is_drawn_with_its_own_mask(axes):
    q, k, v = numbers(1, 2, 4, 3), numbers(1, 2, 4, 3, seed=1), numbers(1, 2, 4, 2, seed=2)
    keep = torch.arange(torch.Size(axes).numel()).view(axes) % 3 > 0
    whole = keep.expand(1, 2, 4, 4)
    shown = texts_of(draw_attention(q, k, v, keep=keep).svg)
    assert shown == texts_of(draw_attention(q, k, v, keep=whole).svg) and shown.count("·") == int((~whole).sum())
    weights = attend(q, k, v, whole)[1]
    assert {number_text(float(weight), decimals=True) for weight in weights[whole]} <= set(shown)


@pytest.mark.slow
def test_shared_keys_and_a_mask_of_the_whole_batch():
    q, k, v = numbers(2, 6, 4, 3), numbers(2, 2, 4, 3, seed=1), numbers(2, 2, 4, 3, seed=2)
    keep = causal_keep(4).expand(2, 6, 4, 4)
    picture = draw_attention(q, k, v, keep=keep)
    check_picture(picture, largest=30_000)
    assert "The first 4 are drawn." in picture.description
    assert picture.svg == draw_attention(q[:1], k[:1], v[:1], keep=causal_keep(4)).svg
    longer = draw_attention(q[:1, :2], numbers(1, 2, 5, 3), numbers(1, 2, 5, 3, seed=4), words=WORDS)
    assert "token 4" in texts_of(longer.svg)  # five keys for four queries have names of their own


def test_heads_of_shows_each_block_once():
    q, k, v = numbers(1, 6, 4, 3), numbers(1, 2, 4, 3, seed=1), numbers(1, 2, 4, 3, seed=2)
    picture = draw_heads(q, k, v, words=WORDS)
    check_picture(picture)
    shown = texts_of(picture.svg)
    assert {"queries, head 3", "keys, heads 0 to 2", "keys, heads 3 to 5"} <= set(shown)
    assert all(number_text(number, decimals=True) in shown for number in k.flatten().tolist())
    assert "each shared by 3 heads" in picture.description and "The first 4 heads are drawn." in picture.description
    with pytest.raises(ValueError, match="keys has 4 heads, which does not divide the 6 of queries"):
        draw_heads(q, numbers(1, 4, 4, 3), v)


def test_two_runs_give_the_same_bytes():
    def draw():
        q, k, v = numbers(1, 2, 4, 3), numbers(1, 2, 4, 3, seed=1), numbers(1, 2, 4, 2, seed=2)
        return (
            draw_attention(q, k, v, keep=causal_keep(4), words=WORDS).svg + draw_matrix_product(q[0, 0], k[0, 0].T).svg
        )

    assert draw() == draw()
