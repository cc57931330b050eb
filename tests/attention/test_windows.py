"""Sliding windows and sinks in the mask: against loops, against transformers' masks, and what several layers reach."""

import pytest
import torch

from course_lib.attention import LlamaAttention, causal_keep, padding_keep, window_keep

from .form_cases import assert_same
from .loop_reference import loop_module, to_array
from .test_llama import BATCH, D_MODEL, FLOAT32_SOFTMAX, HEADS, KERNELS, TOKENS, build, draw_x, padding

WINDOWS = [(1, 0), (3, 0), (4, 2), (1, 3), (TOKENS, 0), (50, 0)]  # window, num_sinks


def window_by_hand(query_len, key_len, window, num_sinks=0):
    """Walk back from each query until the window is full, then add the sinks."""
    keep = torch.zeros(query_len, key_len, dtype=torch.bool)
    for q in range(query_len):
        own = q + key_len - query_len
        seen = list(range(own, -1, -1))[:window] + list(range(own + 1))[:num_sinks]
        keep[q, [k for k in seen if k < key_len]] = True
    return keep


@pytest.mark.parametrize(("query_len", "key_len"), [(9, 9), (2, 7), (7, 2), (1, 5), (1, 1), (0, 0), (0, 3), (3, 0)])
@pytest.mark.parametrize(("window", "num_sinks"), WINDOWS)
def test_it_keeps_the_window_and_the_sinks(window, num_sinks, query_len, key_len):
    keep = window_keep(query_len, key_len, window, num_sinks=num_sinks)
    assert keep.dtype == torch.bool
    assert torch.equal(keep, window_by_hand(query_len, key_len, window, num_sinks))


def test_a_query_far_in_sees_exactly_window_keys_and_the_sinks_besides():
    assert window_keep(9, 9, 4).sum(-1).tolist() == [1, 2, 3, 4, 4, 4, 4, 4, 4]
    assert window_keep(9, 9, 4, num_sinks=2).sum(-1).tolist() == [1, 2, 3, 4, 5, 6, 6, 6, 6]


def test_a_window_of_all_keys_is_the_causal_mask():
    assert torch.equal(window_keep(4, 7, 7), causal_keep(4, 7))
    assert not torch.equal(window_keep(4, 7, 6), causal_keep(4, 7))


def test_key_len_none_means_as_many_as_queries_and_the_mask_is_built_where_it_is_told():
    assert torch.equal(window_keep(5, None, 2), window_keep(5, 5, 2))
    assert window_keep(3, None, 2, device="meta").device.type == "meta"


@pytest.mark.parametrize("window", [1, 3, 8, 9, 30])
def test_it_counts_as_transformers_does(window):
    masking = pytest.importorskip("transformers.masking_utils")
    function = masking.sliding_window_causal_mask_function(window)
    tokens = torch.arange(9)
    assert torch.equal(window_keep(9, 9, window), function(tokens[0], tokens[0], tokens[:, None], tokens))


# --- in a module ---


def reference(module, x, keep):
    """The loops' output, with a mask that holds everything."""
    state = {name: to_array(tensor) for name, tensor in module.state_dict().items()}
    positions = to_array(torch.arange(x.shape[1]))
    arguments = (HEADS, module.num_kv_heads, True, to_array(keep), None, positions, module.rope_theta)
    return torch.from_numpy(loop_module(to_array(x), state, *arguments)[0])


@pytest.mark.parametrize(("window", "num_sinks"), WINDOWS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("side", [None, "left"])
def test_llama_with_a_window_equals_the_loops(side, kernel, window, num_sinks):
    module, x = build(kernel=kernel, exact=True, window=window, num_sinks=num_sinks), draw_x()
    keep, _ = padding(side)
    expected = reference(module, x, window_by_hand(TOKENS, TOKENS, window, num_sinks) & keep)
    tolerance = FLOAT32_SOFTMAX if kernel == "explicit" else 1e-12
    assert_same(module(x, keep=None if side is None else keep), expected, tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_mask_that_the_window_means(kernel):
    module, x = build(kernel=kernel, window=3, num_sinks=1), draw_x()
    plain = build(kernel=kernel)
    plain.load_state_dict(module.state_dict())
    keep = window_keep(TOKENS, TOKENS, 3, num_sinks=1)
    assert_same(module(x), plain(x, keep=keep), 0.0)
    assert (module(x) - plain(x)).abs().max() > 1e-3


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_in_half_precision(kernel, dtype, tolerance):
    module, x = build(kernel=kernel, boost=1.0, window=3, num_sinks=1).to(dtype), draw_x(dtype=dtype)
    output = module(x)
    assert output.dtype == dtype
    assert_same(output, reference(module, x, window_by_hand(TOKENS, TOKENS, 3, 1)), tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_reach_the_window_and_nothing_else(kernel):
    module, x = build(kernel=kernel, window=3, num_sinks=1), draw_x().requires_grad_()
    output = module(x)
    for token, row in enumerate(window_by_hand(TOKENS, TOKENS, 3, 1)):
        (seen,) = torch.autograd.grad(output[:, token].sum(), x, retain_graph=True)
        assert torch.equal((seen != 0).any(-1), row.expand(BATCH, -1))


@pytest.mark.parametrize(("layers", "window"), [(1, 3), (2, 3), (3, 4)])
def test_layers_reach_layers_times_window_less_one_back(layers, window):
    modules, x = [build(window=window) for _ in range(layers)], draw_x(tokens=12).requires_grad_()
    output = x
    for module in modules:
        output = output + module(output)
    output[:, -1].sum().backward()
    reach = layers * (window - 1)
    assert (x.grad != 0).any(-1)[0].tolist() == [False] * (11 - reach) + [True] * (reach + 1)


# --- transformers' Mistral ---


@pytest.mark.parametrize("window", [1, 3, 8])
@pytest.mark.parametrize("kv_heads", [6, 2])
def test_equals_the_attention_of_mistral(kv_heads, window):
    pytest.importorskip("transformers", minversion="5")
    from transformers.models.mistral import modeling_mistral as mistral

    config = mistral.MistralConfig(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        head_dim=10,
        sliding_window=window,
        rope_parameters={"rope_type": "default", "rope_theta": 77.0},
        attn_implementation="eager",
    )
    own, x = build(kv_heads, window=window, rope_theta=77.0), draw_x()
    theirs = mistral.MistralAttention(config, layer_idx=0).double().eval()
    theirs.load_state_dict({name.replace("out_proj", "o_proj"): each for name, each in own.state_dict().items()})
    angles = mistral.MistralRotaryEmbedding(config)(x, torch.arange(TOKENS)[None])
    mask = mistral.create_sliding_window_causal_mask(config, x, None, None)
    expected, expected_weights = theirs(x, angles, mask)
    output, weights = own(x, return_weights=True)
    assert_same(weights, expected_weights, 1e-15)
    assert_same(output, expected, 1e-14)


def test_what_transformers_llama_lacks_is_not_converted():
    for options in ({"window": 3}, {"learned_sinks": True}):
        with pytest.raises(ValueError, match=r"^transformers' LlamaAttention has neither a window nor learned sinks: "):
            LlamaAttention(24, 6, **options).to_transformers()


# --- planted mistakes: the comparisons above go red on each ---


MISTAKES = {
    "one key less": lambda q, k, window, sinks: window_by_hand(q, k, window - 1, sinks),
    "one key more": lambda q, k, window, sinks: window_by_hand(q, k, window + 1, sinks),
    "no causal mask": lambda q, k, window, sinks: window_by_hand(q, k, window, sinks).fliplr().flipud()
    | window_by_hand(q, k, window, sinks),
    "sinks at the end": lambda q, k, window, sinks: window_by_hand(q, k, window) | causal_keep(q, k)
    & (torch.arange(k) >= k - sinks),
    "sinks one late": lambda q, k, window, sinks: window_by_hand(q, k, window) | causal_keep(q, k)
    & (torch.arange(k) < sinks + 1) & (torch.arange(k) > 0),
    "sinks count into the window": lambda q, k, window, sinks: window_by_hand(q, k, window - sinks, sinks),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_seen(mistake):
    right, wrong = window_by_hand(TOKENS, TOKENS, 4, 2), MISTAKES[mistake](TOKENS, TOKENS, 4, 2)
    assert not torch.equal(right, wrong)
    module, x = build(window=4, num_sinks=2, exact=True, kernel="fused"), draw_x()
    assert_same(module(x), reference(module, x, right))
    plain = build(exact=True, kernel="fused")
    plain.load_state_dict(module.state_dict())
    plain.causal = mistake != "no causal mask"
    assert (plain(x, keep=wrong) - module(x)).abs().max() > 1e-3


def test_a_window_with_a_padding_mask_hides_both():
    keep = padding_keep([TOKENS, 4])
    module, x = build(window=3), draw_x()
    _, weights = module(x, keep=keep, return_weights=True)
    visible = (window_keep(TOKENS, TOKENS, 3) & keep).expand_as(weights)
    assert ((weights > 0) == visible).all()
