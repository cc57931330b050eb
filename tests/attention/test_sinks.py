"""Learned sink logits: softmax with one more logit that is dropped, against loops and against transformers' gpt-oss."""

import math

import pytest
import torch

from course_lib.attention import LlamaAttention, attend, causal_keep, padding_keep, softmax_with_sink

from .form_cases import assert_same
from .loop_reference import loop_attention, to_array
from .test_kv_cache import CHUNKS, cache_for, in_chunks
from .test_llama import D_MODEL, FLOAT32_SOFTMAX, HEADS, TOKENS, build, draw_x

KEEPS = {
    "all": lambda: None,
    "causal": lambda: causal_keep(5, 7),
    "padding": lambda: padding_keep([7, 0]),
    "any": lambda: torch.rand(2, 6, 5, 7) < 0.5,
}


def draw(dtype=torch.float64, boost=3.0):
    queries, sinks = boost * torch.randn(2, 6, 5, 4, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    keys, values = torch.randn(2, 3, 7, 4, dtype=torch.float64), torch.randn(2, 3, 7, 8, dtype=torch.float64)
    return [each.to(dtype) for each in (queries, keys, values, sinks)]


@pytest.mark.parametrize("keep", KEEPS)
def test_attend_with_sink_logits_equals_the_loops_forward_and_backward(keep):
    tensors, mask = [each.requires_grad_() for each in draw()], KEEPS[keep]()
    queries, keys, values, sinks = tensors
    context, weights = attend(queries, keys, values, mask, sink_logits=sinks)
    grad_context = torch.randn_like(context)
    arrays = [to_array(each) for each in (queries, keys, values)]
    expected = loop_attention(*arrays, None if mask is None else to_array(mask), to_array(grad_context), sinks.detach())
    assert_same(context, torch.from_numpy(expected[0]))
    assert_same(weights, torch.from_numpy(expected[1]))
    context.backward(grad_context)
    for tensor, gradient in zip(tensors, expected[2], strict=True):
        assert_same(tensor.grad, torch.from_numpy(gradient))
    assert (weights.sum(-1) < 1).all()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float16, 3e-3), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("softmax_dtype", [None, torch.float32])
def test_other_dtypes(softmax_dtype, dtype, tolerance):
    queries, keys, values, sinks = draw(dtype, boost=1.0)
    context, weights = attend(queries, keys, values, softmax_dtype=softmax_dtype, sink_logits=sinks)
    assert context.dtype == weights.dtype == dtype
    expected, _ = loop_attention(*(to_array(each) for each in (queries, keys, values)), sink_logits=to_array(sinks))
    assert_same(context, torch.from_numpy(expected), tolerance)


def test_a_sink_of_minus_infinity_changes_nothing_and_a_large_one_takes_all():
    queries, keys, values, _ = draw()
    context, weights = attend(queries, keys, values)
    without, _ = attend(queries, keys, values, sink_logits=torch.full((6,), -torch.inf))
    assert_same(without, context)
    nothing, _ = attend(queries, keys, values, sink_logits=torch.full((6,), 1e4))
    assert (nothing == 0).all()
    assert_same(weights.sum(-1), torch.ones(2, 6, 5, dtype=torch.float64))


def test_it_is_one_key_more_whose_value_is_zero():
    scores, sinks = torch.randn(2, 3, 4, 5, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    weights = softmax_with_sink(scores, sinks)
    plain = scores.softmax(-1)
    kept = torch.sigmoid(scores.logsumexp(-1) - sinks[:, None])  # what the sink leaves of each row
    assert_same(weights, plain * kept[..., None])
    assert softmax_with_sink(scores.half(), sinks, torch.float32).dtype == torch.float32


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("window", [None, 3])
def test_a_module_with_sinks_is_the_same_with_a_cache(window, chunks):
    module, x = with_sinks(build(2, window=window, learned_sinks=True)), draw_x()
    assert_same(in_chunks(module, x, CHUNKS[chunks], cache_for(module)), module(x), FLOAT32_SOFTMAX)


def test_the_sinks_are_parameters_that_begin_at_zero_and_learn():
    module = build(learned_sinks=True)
    assert module.sink_logits.tolist() == [0.0] * HEADS
    assert "sink_logits" in module.state_dict()
    assert "sink_logits" not in build().state_dict()
    module(draw_x()).square().sum().backward()
    assert (module.sink_logits.grad != 0).all()
    assert module.half().sink_logits.dtype == torch.float16


def with_sinks(module):
    with torch.no_grad():
        module.sink_logits.copy_(torch.linspace(-1.5, 2.0, HEADS))
    return module


@pytest.mark.parametrize("window", [None, 1, 4])
@pytest.mark.parametrize("kv_heads", [6, 2])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 3e-6)])
def test_equals_the_attention_of_gpt_oss(dtype, tolerance, kv_heads, window):
    pytest.importorskip("transformers", minversion="5")
    from transformers.models.gpt_oss import modeling_gpt_oss as gpt_oss

    config = gpt_oss.GptOssConfig(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        head_dim=10,
        num_hidden_layers=1,
        layer_types=["full_attention" if window is None else "sliding_attention"],
        sliding_window=window,
        attention_bias=False,
        rope_parameters={"rope_type": "default", "rope_theta": 77.0},
        attn_implementation="eager",
    )
    own = with_sinks(build(kv_heads, dtype=dtype, window=window, learned_sinks=True, rope_theta=77.0))
    own.softmax_dtype = None  # theirs runs in the dtype of the scores
    x, theirs = draw_x(dtype=dtype), gpt_oss.GptOssAttention(config, layer_idx=0).to(dtype).eval()
    names = {"out_proj.weight": "o_proj.weight", "sink_logits": "sinks"}
    theirs.load_state_dict({names.get(name, name): each for name, each in own.state_dict().items()})
    angles = gpt_oss.GptOssRotaryEmbedding(config)(x, torch.arange(TOKENS)[None])
    make = gpt_oss.create_causal_mask if window is None else gpt_oss.create_sliding_window_causal_mask
    expected, expected_weights = theirs(x, angles, make(config, x, None, None))
    output, weights = own(x, return_weights=True)
    assert_same(weights, expected_weights, tolerance)
    assert_same(output, expected, tolerance)


# --- planted mistakes: the comparison with the loops goes red on each ---

MISTAKES = {
    "the first column is dropped": lambda scores, sinks: torch.cat([scores, sinks], -1).softmax(-1)[..., 1:],
    "the sink is added after the exponential": lambda scores, sinks: (
        scores.exp() / (scores.exp().sum(-1, keepdim=True) + sinks)
    ),
    "added to every score": lambda scores, sinks: (scores + sinks).softmax(-1),
    "scaled like a score": lambda scores, sinks: torch.cat([scores, sinks / math.sqrt(4)], -1).softmax(-1)[..., :-1],
    "of another head": lambda scores, sinks: torch.cat([scores, sinks.roll(1, 1)], -1).softmax(-1)[..., :-1],
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_seen(mistake):
    queries, keys, values, sinks = draw()
    expected = loop_attention(*(to_array(each) for each in (queries, keys, values)), sink_logits=to_array(sinks))
    scores = queries @ keys.repeat_interleave(2, 1).transpose(2, 3) / 2
    column = sinks[None, :, None, None].expand(2, 6, 5, 1)
    assert_same(softmax_with_sink(scores, sinks), torch.from_numpy(expected[1]))
    assert (MISTAKES[mistake](scores, column) - torch.from_numpy(expected[1])).abs().max() > 1e-3


def test_in_a_module_without_sinks_there_is_none():
    assert LlamaAttention(24, 6).sink_logits is None
