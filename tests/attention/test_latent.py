"""Latent attention: both forms against loops and against each other, its cache, and transformers' DeepSeek-V3."""

import copy

import numpy as np
import pytest
import torch

from course_lib.attention import BlockPool, KVCache, LatentAttention, PagedKVCache, causal_keep, padding_keep

from .form_cases import assert_same
from .loop_reference import loop_attention, loop_rotary, to_array
from .test_kv_cache import CHUNKS, KEEPS, in_chunks
from .test_llama import KERNELS, padding
from .test_rotary import exact_table

BATCH, TOKENS, D_MODEL, HEADS = 2, 9, 43, 6
LATENT, HEAD_DIM, ROTARY, VALUE = 11, 5, 8, 7  # 8: with 4, pairs in rows and pairs in columns are the same order
FORMS = [False, True]  # absorb


def build(*, dtype=torch.float64, boost=3.0, exact=True, **options):
    """In eval mode, queries scaled up; exact: a float64 table of angles, and softmax in float64."""
    options = {"latent_dim": LATENT, "head_dim": HEAD_DIM, "rotary_dim": ROTARY, "value_dim": VALUE} | options
    module = LatentAttention(D_MODEL, HEADS, max_positions=64, **options).to(dtype).eval()
    with torch.no_grad():
        module.q_proj.weight.mul_(boost)
        module.rotary_q_proj.weight.mul_(boost)
        module.latent_norm.weight.uniform_(0.5, 1.5)
    if exact:
        module.cos, module.sin = exact_table(64, ROTARY, module.rope_theta)
        module.softmax_dtype = None
    return module


def draw_x(*, batch=BATCH, tokens=TOKENS, dtype=torch.float64):
    return torch.randn(batch, tokens, D_MODEL, dtype=torch.float64).to(dtype)


def cache_for(module, **options):
    options = {"value_dim": LATENT, "dtype": module.q_proj.weight.dtype} | options
    return KVCache(BATCH, 1, TOKENS, ROTARY, **options)


def reference(module, x, keep=None, positions=None):
    """Output and weights in float64 numpy: keys and values of every head and token written out."""
    state, array = {name: to_array(each) for name, each in module.state_dict().items()}, to_array(x)
    batch, tokens, _ = array.shape
    positions = np.arange(tokens) if positions is None else to_array(positions)

    def by_head(name, source, width):
        projected = source @ state[name].T
        return np.stack([projected[..., h * width : (h + 1) * width] for h in range(HEADS)], axis=1)

    latents = array @ state["latent_proj.weight"].T
    for b, t in np.ndindex(batch, tokens):
        latents[b, t] /= np.sqrt(np.mean(latents[b, t] ** 2) + 1e-6)
    latents = latents * state["latent_norm.weight"]
    theta = module.rope_theta
    turned = loop_rotary((array @ state["rotary_k_proj.weight"].T)[:, None], positions, theta)
    rotary_queries = loop_rotary(by_head("rotary_q_proj.weight", array, ROTARY), positions, theta)
    queries = np.concatenate([by_head("q_proj.weight", array, HEAD_DIM), rotary_queries], axis=-1)
    keys = by_head("k_proj.weight", latents, HEAD_DIM)
    keys = np.concatenate([keys, np.repeat(turned, HEADS, axis=1)], axis=-1)
    mask = np.tril(np.ones((tokens, tokens), dtype=bool)) & (True if keep is None else to_array(keep))
    context, weights = loop_attention(queries, keys, by_head("v_proj.weight", latents, VALUE), mask)
    merged = np.concatenate(list(np.moveaxis(context, 1, 0)), axis=-1)
    return torch.from_numpy(merged @ state["out_proj.weight"].T), torch.from_numpy(weights)


# --- the numbers ---


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("absorb", FORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_equals_the_loops(kernel, absorb, keep):
    module, x, mask = build(kernel=kernel), draw_x(), KEEPS[keep]()
    expected, expected_weights = reference(module, x, mask)
    assert_same(module(x, keep=mask, absorb=absorb), expected)
    if kernel == "explicit":
        output, weights = module(x, keep=mask, absorb=absorb, return_weights=True)
        assert_same(output, expected)
        assert_same(weights, expected_weights)


@pytest.mark.parametrize("kernel", KERNELS)
def test_both_forms_are_the_same_with_the_same_gradients(kernel):
    module, x = build(kernel=kernel), draw_x()
    grads = []
    for absorb in FORMS:
        own, own_x = copy.deepcopy(module), x.clone().requires_grad_()
        own(own_x, absorb=absorb).square().sum().backward()
        grads.append([own_x.grad, *(parameter.grad for parameter in own.parameters())])
    assert_same(module(x), module(x, absorb=True), 1e-13)
    for first, second in zip(*grads, strict=True):
        assert_same(first, second, 1e-11)
        assert (first != 0).all()


@pytest.mark.parametrize(("absorb", "kernel"), [(False, "explicit"), (True, "explicit"), (True, "fused")])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 6e-2)], ids=str
)
def test_other_dtypes(dtype, tolerance, absorb, kernel):
    module, x = build(kernel=kernel, boost=1.0, exact=False, dtype=dtype), draw_x(dtype=dtype)
    output = module(x, absorb=absorb)
    assert output.dtype == dtype
    assert_same(output, reference(module, x)[0], tolerance)


@pytest.mark.parametrize("absorb", FORMS)
def test_at_any_positions(absorb):
    module, x = build(rope_theta=77.0), draw_x()
    positions = torch.arange(18).view(2, 9) * 3
    assert_same(module(x, positions=positions, absorb=absorb), reference(module, x, positions=positions)[0])
    assert (module(x) - module(x, positions=positions)).abs().max() > 1e-3
    assert_same(module(x, positions=torch.arange(9) + 30, absorb=absorb), module(x))  # only distances count


# --- the cache ---


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("absorb", FORMS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_cached_equals_uncached(kernel, absorb, chunks, keep):
    module, x, mask = build(kernel=kernel), draw_x(), KEEPS[keep]()
    output = in_chunks(module, x, CHUNKS[chunks], cache_for(module), mask, absorb=absorb)
    assert_same(output, reference(module, x, mask)[0])


def test_the_prompt_materialized_and_the_steps_absorbed():
    module, x = build(), draw_x()
    cache = cache_for(module)
    with torch.no_grad():
        outputs = [module(x[:, :5], cache=cache)]
        outputs += [module(x[:, t : t + 1], cache=cache, absorb=True) for t in range(5, 9)]
    assert_same(torch.cat(outputs, 1), module(x))


def test_the_cache_holds_the_latent_and_one_rotary_key_per_token_for_any_number_of_heads():
    module, x = build(), draw_x()
    cache = cache_for(module)
    in_chunks(module, x, [5, 4], cache)
    assert cache.nbytes == BATCH * TOKENS * (LATENT + ROTARY) * 8
    latents = torch.nn.functional.rms_norm(module.latent_proj(x), (LATENT,), module.latent_norm.weight, 1e-6)
    assert_same(cache.values[:, 0], latents)
    turned = loop_rotary(to_array(module.rotary_k_proj(x))[:, None], np.arange(TOKENS))
    assert_same(cache.keys, torch.from_numpy(turned))


def test_a_paged_cache_will_do():
    module, x = build(), draw_x(batch=1)
    cache = PagedKVCache(BlockPool(4, 3, 1, ROTARY, value_dim=LATENT, dtype=torch.float64))
    assert_same(in_chunks(module, x, [4, 1, 4], cache, absorb=True), module(x))


def test_a_cache_of_other_sizes_is_refused():
    module = build()
    size = "the new keys and values have {0}={1}, but the cache was built with {0}={2}: build KVCache(batch, "
    size += "num_kv_heads, max_len, head_dim) with {0}={1}."
    for name, cache, own, theirs in (
        ("num_kv_heads", KVCache(BATCH, HEADS, 9, ROTARY, value_dim=LATENT), 1, HEADS),
        ("head_dim", KVCache(BATCH, 1, 9, HEAD_DIM, value_dim=LATENT), ROTARY, HEAD_DIM),
        ("value_dim", KVCache(BATCH, 1, 9, ROTARY, value_dim=VALUE), LATENT, VALUE),
    ):
        with pytest.raises(ValueError) as caught:
            module(draw_x(), cache=cache)
        assert str(caught.value) == size.format(name, own, theirs)
        assert cache.length == 0


# --- properties ---


@pytest.mark.parametrize("absorb", FORMS)
def test_no_token_sees_a_later_one_and_empty_rows_train_on(absorb):
    module, x = build(), draw_x().requires_grad_()
    output = module(x, absorb=absorb)
    for token in range(TOKENS):
        (seen,) = torch.autograd.grad(output[:, token].sum(), x, retain_graph=True)
        assert (seen[:, : token + 1] != 0).any(-1).all()
        assert (seen[:, token + 1 :] == 0).all()
    padded = module(x, keep=padding_keep([TOKENS, 4], side="left"), absorb=absorb)
    padded.sum().backward()
    assert (padded[1, :5] == 0).all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


def test_the_table_is_float32_whatever_the_weights_are():
    module = build(exact=False, dtype=torch.float32)
    cos = module.cos.clone()
    assert torch.equal(module.half().float().cos, cos)
    assert "cos" not in module.state_dict()
    assert build().to("meta")(draw_x().to("meta"), absorb=True).shape == (BATCH, TOKENS, D_MODEL)


# --- transformers ---


@pytest.fixture
def deepseek():
    pytest.importorskip("transformers", minversion="5")
    from transformers.models.deepseek_v3 import modeling_deepseek_v3

    return modeling_deepseek_v3


def their_module(deepseek, *, dtype=torch.float64, interleave=True, **options):
    config = deepseek.DeepseekV3Config(
        **{
            "hidden_size": D_MODEL,
            "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS,
            "q_lora_rank": None,
            "kv_lora_rank": LATENT,
            "qk_nope_head_dim": HEAD_DIM,
            "qk_rope_head_dim": ROTARY,
            "v_head_dim": VALUE,
            "rope_interleave": interleave,
            "rope_parameters": {"rope_type": "default", "rope_theta": 77.0},
        }
        | options,
        attn_implementation="eager",
    )
    module = deepseek.DeepseekV3Attention(config, layer_idx=0).to(dtype).eval()
    with torch.no_grad():
        module.kv_a_layernorm.weight.uniform_(0.5, 1.5)
        module.o_proj.weight.mul_(3.0)
    return module


def their_output(deepseek, theirs, x, keep, positions, **options):
    angles = deepseek.DeepseekV3RotaryEmbedding(theirs.config)(x, positions)
    visible = (causal_keep(x.shape[1], keep.shape[-1]) & keep).expand(BATCH, 1, x.shape[1], keep.shape[-1])
    mask = torch.zeros(visible.shape, dtype=x.dtype).masked_fill(~visible, torch.finfo(x.dtype).min)
    return theirs(x, angles, mask, **options)


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("interleave", [True, False])
@pytest.mark.parametrize("absorb", FORMS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 2e-6), (torch.float32, 4e-6)], ids=str)
def test_equals_transformers(dtype, tolerance, absorb, interleave, side, deepseek):
    """Theirs normalises in float32 whatever comes in, so that float64 is no nearer."""
    theirs, x = their_module(deepseek, dtype=dtype, interleave=interleave), draw_x(dtype=dtype)
    keep, positions = padding(side)
    own = LatentAttention.from_transformers(theirs)
    expected, expected_weights = their_output(deepseek, theirs, x, keep, positions)
    output, weights = own(x, keep=keep, positions=positions, absorb=absorb, return_weights=True)
    real = keep[:, 0, 0]
    assert_same(output[real], expected[real], tolerance)
    assert_same(weights.transpose(1, 2)[real], expected_weights.transpose(1, 2)[real], tolerance)


def test_equals_transformers_to_the_last_bits_with_a_norm_in_float64(deepseek):
    theirs, x, (keep, positions) = their_module(deepseek), draw_x(), padding(None)
    own = LatentAttention.from_transformers(theirs)
    theirs.kv_a_layernorm = torch.nn.RMSNorm(LATENT, eps=1e-6, dtype=torch.float64)
    with torch.no_grad():
        theirs.kv_a_layernorm.weight.copy_(own.latent_norm.weight)
    expected, _ = their_output(deepseek, theirs, x, keep, positions)
    assert_same(own(x), expected, 1e-13)


def test_with_a_cache_equals_transformers_with_its_own(deepseek):
    from transformers import DynamicCache

    theirs, x, (keep, positions) = their_module(deepseek), draw_x(), padding(None)
    own, their_cache = LatentAttention.from_transformers(theirs), DynamicCache()
    cache = cache_for(own)
    with torch.no_grad():
        for start, end in ((0, 5), (5, 6), (6, 9)):
            part, at = x[:, start:end], positions[:, start:end]
            expected, _ = their_output(deepseek, theirs, part, keep[..., :end], at, past_key_values=their_cache)
            assert_same(own(part, cache=cache, absorb=True), expected, 2e-6)
    assert_same(cache.values, their_cache.layers[0].keys, 2e-6)  # they call the latent keys and the rotary key values


def test_half_precision_against_transformers(deepseek):
    theirs, x = their_module(deepseek, dtype=torch.bfloat16), draw_x(dtype=torch.bfloat16)
    keep, positions = padding(None)
    expected, _ = their_output(deepseek, theirs, x, keep, positions)
    assert_same(LatentAttention.from_transformers(theirs)(x), expected, 5e-2)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"q_lora_rank": 8}, "the module's config has q_lora_rank=8: only q_lora_rank=None can be converted."),
        (
            {"attention_bias": True},
            "the module's config has attention_bias=True: only attention_bias=False can be converted.",
        ),
        (
            {"attention_dropout": 0.1},
            "the module's config has attention_dropout=0.1: only attention_dropout=0.0 can be converted.",
        ),
    ],
)
def test_what_it_does_not_have_is_not_converted(options, sentence, deepseek):
    with pytest.raises(ValueError) as caught:
        LatentAttention.from_transformers(their_module(deepseek, **options))
    assert str(caught.value) == sentence


def test_another_module_is_not_converted():
    sentence = "this conversion takes the DeepseekV3Attention of transformers, got torch.nn.modules.linear.Linear."
    with pytest.raises(TypeError) as caught:
        LatentAttention.from_transformers(torch.nn.Linear(2, 3))
    assert str(caught.value) == sentence


# --- planted mistakes: the comparison with the loops goes red on each ---


def absorbed_by_hand(module, x, mistake=None):
    """The absorbed form written out; a mistake changes one thing."""
    cos, sin = module.cos[:TOKENS], module.sin[:TOKENS]

    def split(name, width):
        return getattr(module, name)(x).view(BATCH, TOKENS, HEADS, width).transpose(1, 2)

    def turn(each):
        first, second = each[..., : ROTARY // 2], each[..., ROTARY // 2 :]
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    latents = module.latent_proj(x) if mistake == "no norm" else module.latent_norm(module.latent_proj(x))
    k_up, v_up = module.k_proj.weight.view(HEADS, HEAD_DIM, LATENT), module.v_proj.weight.view(HEADS, VALUE, LATENT)
    if mistake == "wrong transpose of the keys":
        k_up = module.k_proj.weight.view(HEADS, LATENT, HEAD_DIM).transpose(1, 2)
    if mistake == "wrong transpose of the values":
        v_up = module.v_proj.weight.view(HEADS, LATENT, VALUE).transpose(1, 2)
    if mistake == "heads of the keys mixed up":
        k_up = module.k_proj.weight.view(HEAD_DIM, HEADS, LATENT).transpose(0, 1)
    rotary_queries, rotary_keys = split("rotary_q_proj", ROTARY), module.rotary_k_proj(x)[:, None]
    if mistake != "queries not rotated":
        rotary_queries = turn(rotary_queries)
    if mistake != "keys not rotated":
        rotary_keys = turn(rotary_keys)
    if mistake == "rotary part left out":
        rotary_keys = rotary_keys * 0
    scores = split("q_proj", HEAD_DIM) @ k_up @ latents[:, None].transpose(2, 3)
    scores = scores + rotary_queries @ rotary_keys.transpose(2, 3)
    width = LATENT + ROTARY if mistake == "scaled by the latent's width" else HEAD_DIM + ROTARY
    weights = (scores / width**0.5).masked_fill(~causal_keep(TOKENS), -torch.inf).softmax(-1)
    context = weights @ latents[:, None] @ v_up.transpose(1, 2)
    return module.out_proj(context.transpose(1, 2).flatten(2))


MISTAKES = [
    "wrong transpose of the keys",
    "wrong transpose of the values",
    "heads of the keys mixed up",
    "queries not rotated",
    "keys not rotated",
    "rotary part left out",
    "scaled by the latent's width",
    "no norm",
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_seen(mistake):
    module, x = build(), draw_x()
    expected, _ = reference(module, x)
    assert_same(absorbed_by_hand(module, x), expected)
    assert (absorbed_by_hand(module, x, mistake) - expected).abs().max() > 1e-3
