"""Keep masks: causal, padding, and their conversion for torch.nn.MultiheadAttention."""

import numpy as np
import pytest
import torch
from torch import nn

from course_lib.attention import causal_keep, padding_keep, to_torch_mask

from .form_cases import assert_same
from .loop_reference import loop_module, to_array


def causal_by_hand(query_len, key_len):
    rows = [[k <= q + key_len - query_len for k in range(key_len)] for q in range(query_len)]
    return torch.tensor(rows, dtype=torch.bool).reshape(query_len, key_len)


@pytest.mark.parametrize(("query_len", "key_len"), [(5, 5), (2, 7), (7, 2), (1, 5), (1, 1), (0, 0), (0, 3), (3, 0)])
def test_causal_keep_sits_at_the_bottom_right(query_len, key_len):
    keep = causal_keep(query_len, key_len)
    assert keep.dtype == torch.bool
    assert torch.equal(keep, causal_by_hand(query_len, key_len))


def test_causal_keep_is_square_when_one_length_is_given():
    assert torch.equal(causal_keep(4), torch.ones(4, 4).tril().bool())
    assert causal_keep(3, 0).shape == (3, 0)


def test_one_query_on_a_cache_sees_every_key():
    assert causal_keep(1, 5).all()


def test_more_queries_than_keys_leaves_rows_that_see_nothing():
    assert causal_keep(7, 2).any(-1).tolist() == [False] * 5 + [True] * 2


def test_causal_keep_is_built_where_it_is_told():
    assert causal_keep(3, device="meta").device.type == "meta"
    assert causal_keep(3, device=torch.device("cpu")).device.type == "cpu"


def test_causal_keep_takes_numpy_lengths():
    assert torch.equal(causal_keep(np.int64(2), np.int32(3)), causal_keep(2, 3))


@pytest.mark.parametrize("lengths", [[3, 1, 4, 0], torch.tensor([3, 1, 4, 0])], ids=["list", "tensor"])
@pytest.mark.parametrize("num_tokens", [None, 4, 6])
@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_keep(lengths, num_tokens, side):
    keep = padding_keep(lengths, num_tokens, side=side)
    tokens = num_tokens or 4
    assert keep.shape == (4, 1, 1, tokens)
    assert keep.dtype == torch.bool
    for row, length in zip(keep[:, 0, 0].tolist(), [3, 1, 4, 0], strict=True):
        padding = [False] * (tokens - length)
        assert row == ([True] * length + padding if side == "right" else padding + [True] * length)


def test_padding_keep_of_nothing_but_padding_has_one_hidden_token():
    assert padding_keep([0, 0]).tolist() == [[[[False]]], [[[False]]]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
@pytest.mark.parametrize("side", ["right", "left"])
def test_short_integer_types_do_not_wrap_around(dtype, side):
    lengths = torch.tensor([5, 100, 0], dtype=dtype)
    assert torch.equal(padding_keep(lengths, 300, side=side), padding_keep([5, 100, 0], 300, side=side))


def test_padding_keep_is_built_where_the_lengths_are_or_where_it_is_told():
    assert padding_keep(torch.tensor([2, 1], device="meta"), 3).device.type == "meta"
    assert padding_keep([2, 1], 3, device="meta").shape == (2, 1, 1, 3)
    assert padding_keep([2, 1], device="cpu").device.type == "cpu"


def test_lengths_are_not_changed():
    lengths = torch.tensor([2, 1])
    padding_keep(lengths, 4, side="left")
    assert lengths.tolist() == [2, 1]


# --- conversion: every row of the table in the docstring, used in PyTorch's own module ---

BATCH, TOKENS, WIDTH, HEADS = 3, 5, 12, 4
CAUSAL = causal_keep(TOKENS)
PADDING = padding_keep([4, 2, 5])


@pytest.fixture
def torch_module():
    return nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64).eval()


def loop_result(module, x, keep):
    weights, biases = to_array(module.in_proj_weight), to_array(module.in_proj_bias)
    state = {"out_proj.weight": to_array(module.out_proj.weight), "out_proj.bias": to_array(module.out_proj.bias)}
    for part, name in enumerate(("q_proj", "k_proj", "v_proj")):
        rows = slice(part * WIDTH, (part + 1) * WIDTH)
        state |= {f"{name}.weight": weights[rows], f"{name}.bias": biases[rows]}
    return [torch.from_numpy(a) for a in loop_module(to_array(x), state, HEADS, HEADS, False, to_array(keep))]


def per_head():
    keep = torch.rand(BATCH, HEADS, TOKENS, TOKENS) < 0.5
    return keep | torch.eye(TOKENS, dtype=torch.bool)


CONVERSIONS = {
    "(query, key)": (lambda: CAUSAL, "attn_mask", (TOKENS, TOKENS), {}),
    "(batch, 1, 1, key)": (lambda: PADDING, "key_padding_mask", (BATCH, TOKENS), {}),
    "(1, 1, query, key)": (lambda: CAUSAL[None, None], "attn_mask", (TOKENS, TOKENS), {}),
    "(batch, 1, query, key)": (
        lambda: CAUSAL & PADDING,
        "attn_mask",
        (BATCH * HEADS, TOKENS, TOKENS),
        {"num_heads": HEADS},
    ),
    "(batch, head, query, key)": (per_head, "attn_mask", (BATCH * HEADS, TOKENS, TOKENS), {}),
    "the same, heads named": (per_head, "attn_mask", (BATCH * HEADS, TOKENS, TOKENS), {"num_heads": HEADS}),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_to_torch_mask_means_the_same_to_pytorch(name, torch_module):
    make, argument, shape, options = CONVERSIONS[name]
    keep = make()
    mask = to_torch_mask(keep, **options)
    assert mask.dtype == torch.bool
    assert mask.shape == shape
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64) * 3
    output, weights = torch_module(x, x, x, average_attn_weights=False, **{argument: mask})
    expected_output, expected_weights = loop_result(torch_module, x, keep)
    assert_same(output, expected_output)
    assert_same(weights, expected_weights)


def test_a_causal_mask_and_a_padding_mask_passed_side_by_side(torch_module):
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64) * 3
    both = {"attn_mask": to_torch_mask(CAUSAL), "key_padding_mask": to_torch_mask(PADDING)}
    assert_same(torch_module(x, x, x, **both)[0], loop_result(torch_module, x, CAUSAL & PADDING)[0])


def test_one_sample_with_a_mask_for_each_head(torch_module):
    x = torch.randn(1, TOKENS, WIDTH, dtype=torch.float64) * 3
    keep = per_head()[:1]
    output, _ = torch_module(x, x, x, attn_mask=to_torch_mask(keep))
    assert_same(output, loop_result(torch_module, x, keep)[0])


def test_one_query_with_a_mask_for_each_head(torch_module):
    x = torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64) * 3
    keep = per_head()[:, :, -1:]
    mask = to_torch_mask(keep)
    assert mask.shape == (BATCH * HEADS, 1, TOKENS)
    expected, _ = loop_result(torch_module, x, keep)
    assert_same(torch_module(x[:, -1:], x, x, attn_mask=mask)[0], expected[:, -1:])


def test_to_torch_mask_hides_what_keep_hides():
    keep = torch.rand(3, 4) < 0.5
    assert torch.equal(to_torch_mask(keep), ~keep)
    before = keep.clone()
    to_torch_mask(keep).fill_(True)
    assert torch.equal(keep, before)
