"""Rotary positions: the table of angles, and queries and keys turned by them."""

import numpy as np
import pytest
import torch

from course_lib.attention import apply_rotary, rotary_table

from .form_cases import assert_same
from .loop_reference import loop_rotary, to_array

BATCH, HEADS, TOKENS, HEAD_DIM = 2, 3, 5, 14
PAIRS = HEAD_DIM // 2
MANY = 40


def exact_table(num_positions, head_dim, theta=10000.0):
    """The table in float64, by numpy."""
    angles = np.arange(num_positions)[:, None] * theta ** (-np.arange(head_dim // 2) * 2 / head_dim)
    return torch.from_numpy(np.cos(angles)), torch.from_numpy(np.sin(angles))


def draw(*, head_dim=HEAD_DIM, dtype=torch.float64):
    return torch.randn(BATCH, HEADS, TOKENS, head_dim, dtype=torch.float64).to(dtype)


# --- the table ---


@pytest.mark.parametrize("theta", [10000.0, 500000, 2.5, 1.0])
@pytest.mark.parametrize("head_dim", [2, 6, 64])
def test_the_table_holds_the_angles_of_the_formula(head_dim, theta):
    cos, sin = rotary_table(MANY, head_dim, rope_theta=theta)
    assert cos.dtype == sin.dtype == torch.float32
    assert cos.shape == sin.shape == (MANY, head_dim // 2)
    for actual, expected in zip((cos, sin), exact_table(MANY, head_dim, theta), strict=True):
        assert_same(actual, expected, MANY * 1.2e-7)  # an angle p * speed is rounded to float32: p times its last bit


def test_position_0_is_not_turned_and_pair_0_turns_by_one_radian_a_token():
    cos, sin = rotary_table(4, HEAD_DIM)
    assert cos[0].tolist() == [1.0] * PAIRS
    assert sin[0].tolist() == [0.0] * PAIRS
    assert_same(sin[:, 0], torch.arange(4).double().sin(), 1e-6)


def test_later_pairs_turn_more_slowly_and_a_larger_theta_slows_them_more():
    slow, slower = (rotary_table(2, HEAD_DIM, rope_theta=theta)[1][1] for theta in (1e4, 5e5))
    assert (slow.diff() < 0).all()
    assert (slower[1:] < slow[1:]).all()


def test_a_longer_table_begins_with_the_shorter_one():
    for short, long in zip(rotary_table(5, HEAD_DIM), rotary_table(MANY, HEAD_DIM), strict=True):
        assert torch.equal(long[:5], short)


def test_the_table_is_built_where_it_is_told():
    assert {each.device.type for each in rotary_table(3, 4, device="meta")} == {"meta"}
    assert {each.device.type for each in rotary_table(3, 4)} == {"cpu"}


def test_the_table_takes_numpy_numbers():
    assert torch.equal(
        rotary_table(np.int64(3), np.int32(4), rope_theta=np.float32(100))[0], rotary_table(3, 4, rope_theta=100)[0]
    )


# --- turning ---


def test_equals_complex_numbers_that_are_multiplied():
    x, (cos, sin) = draw(), exact_table(MANY, HEAD_DIM)
    positions = torch.tensor([3, 0, 17, 18, 39])
    expected = loop_rotary(to_array(x), positions.numpy())
    assert_same(apply_rotary(x, cos[positions], sin[positions]), torch.from_numpy(expected))


def test_each_sample_can_have_positions_of_its_own():
    x, (cos, sin) = draw(), exact_table(MANY, HEAD_DIM, 100.0)
    positions = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 37]])
    turned = apply_rotary(x, cos[positions], sin[positions])
    assert_same(turned, torch.from_numpy(loop_rotary(to_array(x), positions.numpy(), 100.0)))
    assert torch.equal(turned[:1], apply_rotary(x[:1], cos[:TOKENS], sin[:TOKENS]))
    assert torch.equal(turned[1, :, 0], x[1, :, 0])


def test_a_batch_as_long_as_the_tokens_is_no_riddle():
    x, (cos, sin) = draw()[:, :, :BATCH], exact_table(MANY, HEAD_DIM)
    positions = torch.tensor([[5, 6], [0, 7]])
    expected = loop_rotary(to_array(x), positions.numpy())
    assert_same(apply_rotary(x, cos[positions], sin[positions]), torch.from_numpy(expected))


def test_lengths_stay():
    x, (cos, sin) = draw(), exact_table(MANY, HEAD_DIM)
    turned = apply_rotary(x, cos[7:12], sin[7:12])
    assert_same(turned.norm(dim=-1), x.norm(dim=-1))
    halves, turned_halves = (each.unflatten(-1, (2, -1)).norm(dim=-2) for each in (x, turned))
    assert_same(turned_halves, halves)  # and that of each pair


def test_a_dot_product_depends_on_the_distance_only():
    query, key = torch.randn(2, 1, 1, 1, HEAD_DIM, dtype=torch.float64).unbind()
    cos, sin = exact_table(MANY, HEAD_DIM)
    query_at, key_at = (apply_rotary(each.expand(1, 1, MANY, -1), cos, sin)[0, 0] for each in (query, key))
    scores = query_at @ key_at.T  # (query position, key position)
    for distance in range(-MANY + 1, MANY):
        same = scores.diagonal(distance)
        assert_same(same, same[:1].expand_as(same))
    assert (scores[0, 1:] - scores[0, 0]).abs().min() > 1e-3  # and it does depend on it
    assert_same(scores[0, 0], (query * key).sum())


def test_turning_back_undoes_it():
    x, (cos, sin) = draw(), exact_table(TOKENS, HEAD_DIM)
    assert_same(apply_rotary(apply_rotary(x, cos, sin), cos, -sin), x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_the_dtype_of_x_stays(dtype):
    x, table = draw(dtype=dtype), rotary_table(TOKENS, HEAD_DIM)
    turned = apply_rotary(x, *table)
    assert turned.dtype == dtype
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2}.get(dtype, 2e-6)
    assert_same(turned, torch.from_numpy(loop_rotary(to_array(x), np.arange(TOKENS))), 2 * tolerance)


@pytest.mark.slow
def test_x_stays_as_it_is_and_gradients_are_right():
    x, table = draw().requires_grad_(), exact_table(TOKENS, HEAD_DIM)
    before = x.detach().clone()
    apply_rotary(x, *table)
    assert torch.equal(x, before)
    assert torch.autograd.gradcheck(lambda each: apply_rotary(each, *table), x)


def test_x_need_not_be_contiguous():
    x, table = draw(), rotary_table(TOKENS, HEAD_DIM)
    assert torch.equal(apply_rotary(x.transpose(1, 2).contiguous().transpose(1, 2), *table), apply_rotary(x, *table))


@pytest.mark.parametrize("shape", [(0, 3, 5, 14), (2, 3, 0, 14), (2, 0, 5, 14)])
def test_nothing_in_nothing_out(shape):
    table = rotary_table(MANY, HEAD_DIM)
    assert apply_rotary(torch.zeros(shape), *(each[: shape[2]] for each in table)).shape == shape


def test_on_the_meta_device():
    turned = apply_rotary(draw().to("meta"), *rotary_table(TOKENS, HEAD_DIM, device="meta"))
    assert turned.shape == (BATCH, HEADS, TOKENS, HEAD_DIM)


@pytest.mark.parametrize("theta", [10000.0, 500000.0])
def test_equals_transformers_bit_for_bit(theta):
    pytest.importorskip("transformers", minversion="5")
    from transformers.models.llama import modeling_llama as llama

    rope = {"rope_type": "default", "rope_theta": theta}
    config = llama.LlamaConfig(num_attention_heads=HEADS, hidden_size=24, head_dim=HEAD_DIM, rope_parameters=rope)
    queries, keys = draw(dtype=torch.float32), draw(dtype=torch.float32)[:, :1]
    positions = torch.tensor([[0, 1, 2, 3, 4], [1000, 0, 39, 2047, 4095]])
    their_cos, their_sin = llama.LlamaRotaryEmbedding(config)(queries, positions)
    cos, sin = (each[positions] for each in rotary_table(4096, HEAD_DIM, rope_theta=theta))
    assert torch.equal(their_cos, torch.cat([cos, cos], dim=-1))
    assert torch.equal(their_sin, torch.cat([sin, sin], dim=-1))
    expected = llama.apply_rotary_pos_emb(queries, keys, their_cos, their_sin)
    assert torch.equal(apply_rotary(queries, cos, sin), expected[0])
    assert torch.equal(apply_rotary(keys, cos, sin), expected[1])


# --- planted mistakes: this file's comparison goes red on each ---

PLANTED = {
    "neighbours paired instead of halves": lambda x, cos, sin: torch.stack(
        [x[..., ::2] * cos - x[..., 1::2] * sin, x[..., 1::2] * cos + x[..., ::2] * sin], dim=-1
    ).flatten(-2),
    "turned the other way": lambda x, cos, sin: apply_rotary(x, cos, -sin),
    "sine and cosine exchanged": lambda x, cos, sin: apply_rotary(x, sin, cos),
    "one position too far": lambda x, cos, sin: apply_rotary(x, cos.roll(-1, 0), sin.roll(-1, 0)),
    "heads taken for tokens": lambda x, cos, sin: apply_rotary(x.transpose(1, 2), cos[:HEADS], sin[:HEADS]).transpose(
        1, 2
    ),
    "not turned": lambda x, cos, sin: x,
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_seen(mistake):
    x, (cos, sin) = draw(), exact_table(TOKENS, HEAD_DIM)
    expected = torch.from_numpy(loop_rotary(to_array(x), np.arange(TOKENS)))
    assert_same(apply_rotary(x, cos, sin), expected)
    assert (PLANTED[mistake](x, cos, sin) - expected).abs().max() > 1e-3
