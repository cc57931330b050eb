"""Pictures of products: the numbers that stand there are those of an independent computation."""

import pytest
import torch
from picture_checks import check_picture, texts_of
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiQueryAttention,
    SingleHeadAttention,
    causal_keep,
)
from course_lib.pictures import attention_in_heads, heads_of, matrix_product, three_projections
from course_lib.pictures.blocks import two_digits


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WORDS = ("one", "two", "three", "four")


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.314, "0.31"), (-0.001, "0.00"), (-9.994, "-9.99"), (-12.34, "-12.3"), (123.4, "123"), (4e7, "4e+07")],
)
def test_a_number_fits_its_cell(number, text):
    assert two_digits(number) == text
    assert len(text) <= 5


def test_a_product_shows_all_three_matrices_and_the_sum_of_one_number():
    left, right = numbers(4, 3), numbers(3, 6, seed=1)
    picture = matrix_product(left, right, words=WORDS, num_heads=2, follow=(2, 4))
    check_picture(picture)
    shown = texts_of(picture.svg)
    result = left.numpy() @ right.numpy()
    for table in (left.numpy(), right.numpy(), result):
        for number in table.flatten():
            assert two_digits(number) in shown
    assert result[2, 4] == pytest.approx(sum(left[2, i].item() * right[i, 4].item() for i in range(3)))
    terms = [f"{two_digits(left[2, i].item())} · {two_digits(right[i, 4].item())}" for i in range(3)]
    assert f"{' + '.join(terms)} = {two_digits(result[2, 4])}".replace("-", "−") in picture.words
    assert "Columns 0 to 2 are head 0, 3 to 5 are head 1" in picture.words
    assert shown.count("head 0") == shown.count("head 1") == 2


def test_a_batch_shows_its_first_sample_and_says_so():
    batch = numbers(2, 4, 3)
    picture = matrix_product(batch, numbers(3, 5, seed=1))
    assert picture.svg == matrix_product(batch[0], numbers(3, 5, seed=1)).svg
    assert "Sample 0 of 2 is drawn." in picture.words


def test_a_large_product_is_drawn_in_part_and_says_so():
    picture = matrix_product(numbers(10, 12), numbers(12, 9, seed=1))
    check_picture(picture, largest=25_000)
    assert {"(10, 12), 8 by 5 drawn", "(12, 9), 8 by 5 drawn", "(10, 9), 8 by 5 drawn"} <= set(texts_of(picture.svg))


def test_swapped_operands_change_the_picture():
    square, other = numbers(3, 3), numbers(3, 3, seed=1)
    assert matrix_product(square, other).svg != matrix_product(other, square).svg


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "words"),
    [
        ((numbers(4, 3), numbers(4, 3)), {}, ValueError, r"left \(4, 3\) and right \(4, 3\) can't be multiplied"),
        (([1], numbers(1, 1)), {}, TypeError, "left must be a tensor, got list"),
        ((numbers(4, 3), numbers(3)), {}, ValueError, r"right must be \(d_in, width\)"),
        ((numbers(4, 0), numbers(0, 3)), {}, ValueError, "left holds no numbers"),
        ((numbers(4, 3).to("meta"), numbers(3, 2)), {}, ValueError, "left holds no numbers"),
        ((numbers(4, 3), numbers(3, 5)), {"num_heads": 2}, ValueError, "num_heads=2 does not divide the width 5"),
        ((numbers(4, 3), numbers(3, 5)), {"follow": (4, 0)}, ValueError, r"follow=\(4, 0\) is no number"),
        ((numbers(9, 3), numbers(3, 5)), {"follow": (8, 0)}, ValueError, "outside the part that is drawn"),
        ((numbers(4, 3), numbers(3, 5)), {"words": ("a",)}, ValueError, "words has 1 labels for 4 tokens"),
    ],
)
def test_what_can_not_be_drawn_is_refused(arguments, options, kind, words):
    with pytest.raises(kind, match=words):
        matrix_product(*arguments, **options)


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
    picture = three_projections(x, module, WORDS)
    check_picture(picture)
    shown = texts_of(picture.svg)
    for part in (module.q_proj, module.k_proj, module.v_proj):
        for number in part(x)[0].flatten().tolist():
            assert two_digits(number) in shown
    assert set(notes) <= set(shown)
    assert module.training and module.q_proj.weight.grad is None


def test_a_module_without_projections_is_refused():
    with pytest.raises(TypeError, match=r"module has no nn\.Linear called q_proj"):
        three_projections(numbers(1, 4, 5), nn.Linear(5, 5))


def test_attention_in_heads_shows_scores_that_were_softmaxed_by_hand():
    q, k, v = numbers(1, 2, 4, 3), numbers(1, 2, 4, 3, seed=1), numbers(1, 2, 4, 2, seed=2)
    picture = attention_in_heads(q, k, v, causal_keep(4), WORDS)
    check_picture(picture)
    shown = texts_of(picture.svg)
    for head in range(2):
        for query in range(4):
            scores = [float(q[0, head, query] @ k[0, head, key]) / 3**0.5 for key in range(query + 1)]
            powers = torch.tensor(scores, dtype=torch.float64).exp()
            for weight in (powers / powers.sum()).tolist():
                assert two_digits(weight) in shown
            mixed = (powers / powers.sum()) @ v[0, head, : query + 1]
            assert all(two_digits(number) in shown for number in mixed.tolist())
    assert shown.count("·") == 2 * 6  # the hidden cells of two heads
    assert "Cells with a dot are hidden." in picture.words


def test_shared_keys_and_a_mask_of_the_whole_batch():
    q, k, v = numbers(2, 6, 4, 3), numbers(2, 2, 4, 3, seed=1), numbers(2, 2, 4, 3, seed=2)
    keep = causal_keep(4).expand(2, 6, 4, 4)
    picture = attention_in_heads(q, k, v, keep)
    check_picture(picture, largest=30_000)
    assert "The first 4 are drawn." in picture.words
    assert picture.svg == attention_in_heads(q[:1], k[:1], v[:1], causal_keep(4)).svg
    longer = attention_in_heads(q[:1, :2], numbers(1, 2, 5, 3), numbers(1, 2, 5, 3, seed=4), None, WORDS)
    assert "token 4" in texts_of(longer.svg)  # five keys for four queries have names of their own


def test_heads_of_shows_each_block_once():
    q, k, v = numbers(1, 6, 4, 3), numbers(1, 2, 4, 3, seed=1), numbers(1, 2, 4, 3, seed=2)
    picture = heads_of(q, k, v, WORDS)
    check_picture(picture)
    shown = texts_of(picture.svg)
    assert {"queries, head 3", "keys, heads 0 to 2", "keys, heads 3 to 5"} <= set(shown)
    assert all(two_digits(number) in shown for number in k.flatten().tolist())
    assert "each shared by 3 heads" in picture.words and "The first 4 heads are drawn." in picture.words
    with pytest.raises(ValueError, match="keys has 4 heads, which does not divide the 6 of queries"):
        heads_of(q, numbers(1, 4, 4, 3), v)


def test_two_runs_give_the_same_bytes():
    def draw():
        q, k, v = numbers(1, 2, 4, 3), numbers(1, 2, 4, 3, seed=1), numbers(1, 2, 4, 2, seed=2)
        return attention_in_heads(q, k, v, causal_keep(4), WORDS).svg + matrix_product(q[0, 0], k[0, 0].T).svg

    assert draw() == draw()
