"""Llama's attention: against the loops with complex numbers, against `transformers`, with a cache and without."""

import copy
import io
import pickle
import sys
import types

import pytest
import torch
from torch import nn

from course_lib.attention import LlamaAttention, attend_fused, causal_keep, padding_keep

from .form_cases import assert_same
from .loop_reference import loop_module, to_array
from .test_kv_cache import CHUNKS, KEEPS, cache_for, in_chunks
from .test_rotary import exact_table

BATCH, TOKENS, D_MODEL, HEADS, HEAD_DIM = 2, 9, 42, 6, 10  # head_dim is its own: 6 * 10 is not 42
KV_HEADS = [6, 3, 2, 1]
KERNELS = ["explicit", "fused"]
# Llama takes its softmax in float32, whatever comes in: the explicit kernel can't be nearer to float64 than this.
FLOAT32_SOFTMAX = 1e-6


def build(kv_heads=2, *, dtype=torch.float64, boost=3.0, exact=False, **options):
    """In eval mode, queries and keys scaled up; exact puts a float64 table of angles in place of the float32 one."""
    options = {"head_dim": HEAD_DIM, "max_positions": 64} | options
    module = LlamaAttention(D_MODEL, HEADS, num_kv_heads=kv_heads, **options).to(dtype).eval()
    with torch.no_grad():
        module.q_proj.weight.mul_(boost)
        module.k_proj.weight.mul_(boost)
    if exact:
        module.cos, module.sin = exact_table(64, HEAD_DIM, options.get("rope_theta", 10000.0))
    return module


def draw_x(*, batch=BATCH, tokens=TOKENS, dtype=torch.float64):
    return torch.randn(batch, tokens, D_MODEL, dtype=torch.float64).to(dtype)


def reference(module, x, *, keep=None, positions=None):
    """Output and weights of the loops, in float64; keys and queries turned as complex numbers."""
    state = {name: to_array(tensor) for name, tensor in module.state_dict().items()}
    positions = torch.arange(x.shape[1]) if positions is None else positions
    mask = None if keep is None else to_array(keep)
    results = loop_module(
        to_array(x), state, HEADS, module.num_kv_heads, True, mask, None, to_array(positions), module.rope_theta
    )
    return tuple(torch.from_numpy(result) for result in results)


# --- the numbers ---


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("kv_heads", KV_HEADS)
def test_equals_the_loops(kv_heads, keep):
    fused, x, mask = build(kv_heads, kernel="fused", exact=True), draw_x(), KEEPS[keep]()
    expected, expected_weights = reference(fused, x, keep=mask)
    assert_same(fused(x, keep=mask), expected)  # the fused kernel stays in float64
    explicit = build(kv_heads, exact=True)
    explicit.load_state_dict(fused.state_dict())
    output, weights = explicit(x, keep=mask, return_weights=True)
    assert_same(output, expected, FLOAT32_SOFTMAX)
    assert_same(weights, expected_weights, FLOAT32_SOFTMAX)
    assert torch.equal(explicit(x, keep=mask), output)


@pytest.mark.parametrize(
    "positions",
    [torch.tensor([4, 9, 2, 30, 31, 7, 0, 63, 5]), torch.arange(18).view(2, 9) * 3],
    ids=["(token,)", "(batch, token)"],
)
@pytest.mark.parametrize("theta", [10000.0, 100.0])
def test_equals_the_loops_at_any_positions(theta, positions):
    module, x = build(kernel="fused", exact=True, rope_theta=theta), draw_x()
    expected, _ = reference(module, x, positions=positions)
    assert_same(module(x, positions=positions), expected)
    assert_same(module(x, positions=positions.int()), expected)
    assert (module(x) - expected).abs().max() > 1e-3


@pytest.mark.parametrize("kernel", KERNELS)
def test_its_own_table_is_as_exact_as_float32_is(kernel):
    module, x = build(kernel=kernel), draw_x()
    assert_same(module(x), reference(module, x)[0], 3e-6)  # an angle is rounded to float32: TOKENS times its last bit


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 4e-6), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)], ids=str
)
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_other_dtypes(kernel, kv_heads, dtype, tolerance):
    module, x = build(kv_heads, kernel=kernel, boost=1.0).to(dtype), draw_x(dtype=dtype)
    output = module(x, keep=padding_keep([TOKENS, 4]))
    assert output.dtype == dtype
    assert_same(output, reference(module, x, keep=padding_keep([TOKENS, 4]))[0], tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
def test_autocast(kernel):
    module, x = build(kernel=kernel, boost=1.0).float(), draw_x(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = module(x)
    output.sum().backward()
    assert output.dtype == torch.bfloat16
    assert_same(output, reference(module, x)[0], 3e-2)
    assert all(parameter.grad.dtype == torch.float32 for parameter in module.parameters())


def test_softmax_runs_in_float32():
    module, x = build(), draw_x()
    output, weights = module(x, return_weights=True)
    assert weights.dtype == output.dtype == torch.float64
    assert torch.equal(weights, weights.float().double())  # so float32 is enough to hold them
    module.softmax_dtype = None
    assert not torch.equal(module(x, return_weights=True)[1], weights)


def test_both_kernels_have_the_same_gradients():
    explicit, x = build(3), draw_x()
    fused = build(3, kernel="fused")
    fused.load_state_dict(explicit.state_dict())
    grads = []
    for module in (explicit, fused):
        own_x = x.clone().requires_grad_()
        module(own_x, keep=padding_keep([TOKENS, 4], side="left")).square().sum().backward()
        grads.append([own_x.grad, *(parameter.grad for parameter in module.parameters())])
    for first, second in zip(*grads, strict=True):
        assert_same(first, second, 1e-5)
        assert (first != 0).any()


# --- with a cache ---


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("kv_heads", [6, 2, 1])
@pytest.mark.parametrize("kernel", KERNELS)
def test_cached_equals_uncached(kernel, kv_heads, chunks, keep):
    module, x, mask = build(kv_heads, kernel=kernel), draw_x(), KEEPS[keep]()
    tolerance = FLOAT32_SOFTMAX if kernel == "explicit" else 1e-12  # fewer keys are summed in another order, in float32
    assert_same(in_chunks(module, x, CHUNKS[chunks], cache_for(module), mask), module(x, keep=mask), tolerance)


@pytest.mark.parametrize("kernel", KERNELS)
def test_left_padding_with_positions_that_start_at_its_first_real_token(kernel):
    module, x = build(kernel=kernel, exact=True), draw_x()
    keep = padding_keep([TOKENS, 4], side="left")
    positions = (keep[:, 0, 0].long().cumsum(-1) - 1).clamp(min=0)
    assert positions[1].tolist() == [0, 0, 0, 0, 0, 0, 1, 2, 3]
    expected = module(x, keep=keep, positions=positions)
    assert_same(expected[1:, 5:], module(x[1:, 5:]), FLOAT32_SOFTMAX)  # the short sample alone
    cache = cache_for(module)
    with torch.no_grad():
        for start, end in ((0, 6), (6, 7), (7, 9)):
            output = module(x[:, start:end], cache=cache, keep=keep[..., :end], positions=positions[:, start:end])
            assert_same(output, expected[:, start:end], FLOAT32_SOFTMAX)


def test_weights_with_a_cache_are_the_rows_of_the_whole():
    module, x = build(), draw_x()
    cache = cache_for(module)
    with torch.no_grad():
        _, expected = module(x, return_weights=True)
        module(x[:, :5], cache=cache)
        _, weights = module(x[:, 5:], cache=cache, return_weights=True)
    assert_same(weights, expected[:, :, 5:], FLOAT32_SOFTMAX)


def test_the_keys_in_the_cache_are_turned_and_the_values_are_not():
    module, x = build(exact=True), draw_x()
    cache = cache_for(module)
    in_chunks(module, x, [5, 4], cache)
    keys, values = (
        projection(x).view(BATCH, TOKENS, 2, HEAD_DIM).transpose(1, 2) for projection in (module.k_proj, module.v_proj)
    )
    assert_same(cache.values, values)
    assert_same(cache.keys[:, :, 0], keys[:, :, 0])  # position 0
    assert (cache.keys[:, :, 1:] - keys[:, :, 1:]).abs().amax(-1).min() > 1e-3


@pytest.mark.parametrize("kernel", KERNELS)
def test_under_autocast_the_cache_holds_its_dtype(kernel):
    module, x = build(kernel=kernel, boost=1.0).float(), draw_x(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = in_chunks(module, x, [5, 1, 3], cache_for(module, dtype=torch.bfloat16))
    assert_same(output, reference(module, x)[0], 3e-2)


# --- properties ---


@pytest.mark.parametrize("kernel", KERNELS)
def test_only_distances_count(kernel):
    module, x = build(kernel=kernel), draw_x()
    for shift in (1, 17, 55):
        assert_same(module(x, positions=torch.arange(TOKENS) + shift), module(x), 3e-6)
    assert (module(x, positions=torch.arange(TOKENS) * 2) - module(x)).abs().max() > 1e-3


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_order_of_the_tokens_counts(kernel):
    module, x = build(kernel=kernel, exact=True), draw_x()
    order = torch.tensor([3, 0, 2, 1, 4, 7, 6, 5, 8])
    last, moved = module(x)[:, -1], module(x[:, order])[:, -1]  # the last token sees all others
    assert (moved - last).abs().max() > 1e-2
    assert_same(module(x[:, order], positions=order)[:, -1], last, FLOAT32_SOFTMAX)  # unless each keeps its place


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_token_sees_a_later_one(kernel):
    module, x = build(kernel=kernel), draw_x().requires_grad_()
    output = module(x)
    for token in range(TOKENS):
        (seen,) = torch.autograd.grad(output[:, token].sum(), x, retain_graph=True)
        assert (seen[:, : token + 1] != 0).any(-1).all()
        assert (seen[:, token + 1 :] == 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_queries_that_see_nothing_get_zeros_and_train_on(kernel):
    module, x = build(kernel=kernel), draw_x().requires_grad_()
    with torch.autograd.set_detect_anomaly(True):
        output = module(x, keep=padding_keep([TOKENS, 4], side="left"))
        output.sum().backward()
    assert (output[1, :5] == 0).all()
    assert x.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_gradient_reaches_every_parameter(kernel, kv_heads):
    module = build(kv_heads, kernel=kernel)
    module(draw_x()).square().sum().backward()
    assert all((parameter.grad.abs() > 0).all() for parameter in module.parameters())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (3, 1), (0, 5), (2, 0), (1, 40)])
def test_any_batch_and_any_length(kernel, batch, tokens):
    module, x = build(kernel=kernel, exact=True), draw_x(batch=batch, tokens=tokens)
    assert_same(module(x), reference(module, x)[0], FLOAT32_SOFTMAX)
    empty = torch.zeros(batch, tokens, dtype=torch.int64)
    assert module(x, positions=empty).shape == (batch, tokens, D_MODEL)


def test_sizes_that_are_not_given():
    module = LlamaAttention(24, 6)
    assert (module.num_kv_heads, module.head_dim, module.value_dim) == (6, 4, 4)
    assert module.k_proj.weight.shape == (24, 24)
    assert all(projection.bias is None for projection in module.modules() if isinstance(projection, nn.Linear))


@pytest.mark.parametrize(("num_kv_heads", "width"), [(6, 60), (3, 30), (2, 20), (1, 10)])
def test_fewer_kv_heads_make_narrower_projections(num_kv_heads, width):
    module = build(num_kv_heads)
    assert module.k_proj.weight.shape == module.v_proj.weight.shape == (width, D_MODEL)
    assert module.q_proj.weight.shape == (60, D_MODEL)
    assert module.out_proj.weight.shape == (D_MODEL, 60)


# --- the table and the state ---


def test_the_state_holds_projections_and_nothing_else():
    assert list(build().state_dict()) == [f"{name}_proj.weight" for name in ("q", "k", "v", "out")]
    assert [name for name, _ in build().named_buffers()] == ["cos", "sin"]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.half(),
        lambda m: m.to(torch.bfloat16),
        lambda m: m.double(),
        lambda m: m.to("meta").to_empty(device="cpu"),
    ],
)
def test_the_table_is_float32_whatever_the_weights_are(change):
    """Rounded to bfloat16 and back, angles would be wrong by 0.002 for good."""
    module = build(dtype=torch.float32)
    cos, sin = module.cos.clone(), module.sin.clone()
    changed = change(module)
    assert changed is module
    assert torch.equal(changed.float().cos, cos)
    assert torch.equal(changed.float().sin, sin)
    assert cos.dtype == changed.cos.dtype == torch.float32


def test_the_table_moves_with_the_module():
    module = build().to("meta")
    assert {module.cos.device.type, module.sin.device.type} == {"meta"}
    assert module(draw_x().to("meta")).shape == (BATCH, TOKENS, D_MODEL)
    positions = torch.zeros(BATCH, TOKENS, dtype=torch.int64, device="meta")
    assert module(draw_x().to("meta"), positions=positions).device.type == "meta"


def test_a_copy_a_pickle_and_a_loaded_state_give_the_same_output():
    module, x = build(), draw_x()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    loaded = build()
    assert not torch.equal(loaded(x), module(x))
    loaded.load_state_dict(torch.load(file))
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded):
        assert torch.equal(twin(x), module(x))


def test_forward_changes_nothing():
    module, x, positions = build(), draw_x(), torch.arange(TOKENS)
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    attributes, old_x = dict(vars(module)), x.clone()
    module(x, positions=positions)
    assert all(vars(module)[name] is value for name, value in attributes.items())
    assert vars(module).keys() == attributes.keys()
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert torch.equal(x, old_x)
    assert torch.equal(positions, torch.arange(TOKENS))
    assert torch.equal(state, torch.get_rng_state())


# --- transformers ---


@pytest.fixture
def hugging_face():
    """The module of `transformers` that has its Llama, and its cache; the test is skipped where it isn't installed."""
    pytest.importorskip("transformers", minversion="5")
    from transformers import DynamicCache
    from transformers.models.llama import modeling_llama

    return types.SimpleNamespace(llama=modeling_llama, cache=DynamicCache)


def their_module(hugging_face, kv_heads=2, *, dtype=torch.float64, kind="eager", boost=3.0, theta=10000.0, **options):
    config = hugging_face.llama.LlamaConfig(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        **({"head_dim": HEAD_DIM, "rope_parameters": {"rope_type": "default", "rope_theta": theta}} | options),
        attn_implementation=kind,
    )
    module = hugging_face.llama.LlamaAttention(config, layer_idx=0).to(dtype).eval()
    with torch.no_grad():
        module.q_proj.weight.mul_(boost)
        module.k_proj.weight.mul_(boost)
    return module


def their_mask(keep, query_len, key_len, dtype, kind):
    """Both masks in one, as their model makes it: additive for eager, bool for sdpa."""
    keep = (causal_keep(query_len, key_len) & keep).expand(-1, 1, query_len, key_len)
    return keep if kind == "sdpa" else torch.zeros(keep.shape, dtype=dtype).masked_fill(~keep, torch.finfo(dtype).min)


def padding(side):
    """keep (batch, 1, 1, key), and positions as their models count them: the attention mask's cumsum - 1."""
    keep = padding_keep([TOKENS, 4], side=side) if side else torch.ones(BATCH, 1, 1, TOKENS, dtype=torch.bool)
    return keep, (keep[:, 0, 0].long().cumsum(-1) - 1).clamp(min=0)


def assert_equal_to_the_last_bit(output, expected, kv_heads):
    """0.0 apart; where heads are folded, context is summed in another order: the last bit of float64 may differ."""
    assert (output - expected).abs().max().item() <= (0.0 if kv_heads == HEADS else 1e-15)


@pytest.mark.parametrize("side", [None, "right", "left"])
@pytest.mark.parametrize("kv_heads", KV_HEADS)
def test_equals_transformers_eager_in_float64(kv_heads, side, hugging_face):
    theirs, x, (keep, positions) = their_module(hugging_face, kv_heads), draw_x(), padding(side)
    own = LlamaAttention.from_transformers(theirs)
    angles = hugging_face.llama.LlamaRotaryEmbedding(theirs.config)(x, positions)
    expected, expected_weights = theirs(x, angles, their_mask(keep, TOKENS, TOKENS, x.dtype, "eager"))
    output, weights = own(x, keep=keep, positions=positions, return_weights=True)
    real = keep[:, 0, 0]  # of a padded query theirs makes up weights, ours is 0
    assert torch.equal(weights.transpose(1, 2)[real], expected_weights.transpose(1, 2)[real])
    assert_equal_to_the_last_bit(output[real], expected[real], kv_heads)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("side", [None, "right", "left"])
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("kind", ["eager", "sdpa"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, FLOAT32_SOFTMAX), (torch.float32, 1e-6)], ids=str)
def test_equals_transformers_with_either_kernel(dtype, tolerance, kind, kernel, kv_heads, side, hugging_face):
    theirs = their_module(hugging_face, kv_heads, dtype=dtype, kind=kind, boost=2.0, theta=500000.0)
    own, x, (keep, positions) = (
        LlamaAttention.from_transformers(theirs, kernel=kernel),
        draw_x(dtype=dtype),
        padding(side),
    )
    angles = hugging_face.llama.LlamaRotaryEmbedding(theirs.config)(x, positions)
    expected, _ = theirs(x, angles, their_mask(keep, TOKENS, TOKENS, dtype, kind))
    real = keep[:, 0, 0]
    output = own(x, keep=keep, positions=positions)
    assert_same(output[real], expected[real], tolerance)
    if dtype == torch.float64 and (kind == "sdpa") == (kernel == "fused"):  # both softmax in one dtype
        assert_same(output[real], expected[real], 2e-15)
    if side != "left":
        assert torch.equal(own(x, keep=keep)[real], output[real])  # positions count from 0 by themselves


@pytest.mark.parametrize("side", [None, "left"])
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_with_a_cache_equals_transformers_with_its_own(kind, kv_heads, side, hugging_face):
    theirs, x, (keep, positions) = their_module(hugging_face, kv_heads, kind=kind), draw_x(), padding(side)
    own = LlamaAttention.from_transformers(theirs, kernel="explicit" if kind == "eager" else "fused")
    rotary = hugging_face.llama.LlamaRotaryEmbedding(theirs.config)
    cache, their_cache = cache_for(own), hugging_face.cache()
    with torch.no_grad():
        for start, end in ((0, 5), (5, 6), (6, 7), (7, 9)):
            part, at, seen, real = x[:, start:end], positions[:, start:end], keep[..., :end], keep[:, 0, 0, start:end]
            mask = their_mask(seen, end - start, end, x.dtype, kind)
            expected, _ = theirs(part, rotary(part, at), mask, past_key_values=their_cache)
            output = own(part, keep=seen, positions=at, cache=cache)
            assert (output[real] - expected[real]).abs().max().item() <= 1e-15
    assert torch.equal(cache.keys, their_cache.layers[0].keys)
    assert torch.equal(cache.values, their_cache.layers[0].values)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_equals_transformers_in_half_precision(dtype, hugging_face):
    theirs, x, (keep, positions) = (
        their_module(hugging_face, dtype=dtype, boost=1.0),
        draw_x(dtype=dtype),
        padding(None),
    )
    angles = hugging_face.llama.LlamaRotaryEmbedding(theirs.config)(x, positions)
    expected, _ = theirs(x, angles, their_mask(keep, TOKENS, TOKENS, dtype, "eager"))
    own = LlamaAttention.from_transformers(theirs)
    assert_same(own(x), expected, {torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("trainable", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_there_and_back_again_is_bit_for_bit(dtype, trainable, training, kernel, hugging_face):
    module = build(3, dtype=dtype, rope_theta=500000.0, kernel=kernel).train(training).requires_grad_(trainable)
    state = torch.get_rng_state()
    theirs = module.to_transformers()
    back = LlamaAttention.from_transformers(theirs, max_positions=64, kernel=kernel)
    again = back.to_transformers()
    assert torch.equal(state, torch.get_rng_state())
    for first, second in ((module, back), (theirs, again)):
        assert first.state_dict().keys() == second.state_dict().keys()
        assert all(torch.equal(each, second.state_dict()[name]) for name, each in first.state_dict().items())
    for converted in (theirs, back, again):
        assert {parameter.dtype for parameter in converted.parameters()} == {dtype}
        assert {parameter.requires_grad for parameter in converted.parameters()} == {trainable}
        assert {each.training for each in converted.modules()} == {training}
    assert (back.rope_theta, back.kernel, len(back.cos), back.head_dim) == (500000.0, kernel, 64, HEAD_DIM)
    assert torch.equal(back.cos, module.cos)
    assert theirs.config._attn_implementation == {"explicit": "eager", "fused": "sdpa"}[kernel]
    assert theirs.config.max_position_embeddings == 64
    storages = [each.data_ptr() for one in (module, theirs, back, again) for each in one.parameters()]
    assert len(set(storages)) == len(storages)


def test_to_transformers_computes_the_same(hugging_face):
    module, x, (keep, positions) = build(3, rope_theta=77.0), draw_x(), padding("left")
    theirs = module.to_transformers()
    angles = hugging_face.llama.LlamaRotaryEmbedding(theirs.config)(x, positions)
    expected, _ = theirs(x, angles, their_mask(keep, TOKENS, TOKENS, x.dtype, "eager"))
    real = keep[:, 0, 0]
    assert (module(x, keep=keep, positions=positions)[real] - expected[real]).abs().max() <= 1e-15


def test_both_ways_on_the_meta_device(hugging_face):
    module = build().to("meta")
    back = LlamaAttention.from_transformers(module.to_transformers())
    assert {parameter.device.type for parameter in back.parameters()} == {"meta"}
    assert len(back.cos) == 4096


REFUSED = {
    "a bias": ({"attention_bias": True}, "attention_bias=True: only attention_bias=False"),
    "dropout": ({"attention_dropout": 0.1}, "attention_dropout=0.1: only attention_dropout=0.0"),
    "scaled positions": (
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}},
        "rope_type='linear': only rope_type='default'",
    ),
    "Llama 3.1's positions": (
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
                "rope_theta": 500000.0,
            }
        },
        "rope_type='llama3': only rope_type='default'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_this_class_does_not_have_is_refused(name, hugging_face):
    options, words = REFUSED[name]
    theirs = their_module(hugging_face, **options)
    with pytest.raises(ValueError) as caught:
        LlamaAttention.from_transformers(theirs)
    assert str(caught.value) == f"the module's config has {words} can be converted."


def test_a_config_of_an_older_transformers_is_refused(hugging_face):
    theirs = their_module(hugging_face)
    theirs.config = types.SimpleNamespace(rope_theta=10000.0)
    with pytest.raises(ValueError) as caught:
        LlamaAttention.from_transformers(theirs)
    assert str(caught.value) == (
        "the module's config has no rope_parameters: update transformers to version 5 or later."
    )


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: build(), "course_lib.attention.llama.LlamaAttention"),
        (lambda: nn.Linear(2, 2), "torch.nn.modules.linear.Linear"),
        (lambda: None, "builtins.NoneType"),
    ],
)
def test_another_class_is_refused_by_name(make, name):
    with pytest.raises(TypeError) as caught:
        LlamaAttention.from_transformers(make())
    assert str(caught.value) == f"this conversion takes the LlamaAttention of transformers, got {name}."


def test_another_class_of_transformers_is_refused_by_name(hugging_face):
    from transformers.models.mistral import modeling_mistral

    theirs = modeling_mistral.MistralAttention(modeling_mistral.MistralConfig(hidden_size=16, num_attention_heads=2), 0)
    with pytest.raises(TypeError, match=r"got transformers\.models\.mistral\.modeling_mistral\.MistralAttention\.$"):
        LlamaAttention.from_transformers(theirs)


def test_a_width_that_transformers_refuses_is_refused_in_a_sentence():
    module = LlamaAttention(43, HEADS, head_dim=HEAD_DIM)
    with pytest.raises(ValueError) as caught:
        module.to_transformers()
    assert str(caught.value) == "d_model=43 can't be cut into num_heads=6 equal parts: choose d_model=42 or 48."


def test_without_transformers_a_sentence_says_what_to_do(monkeypatch):
    for name in ("transformers", "transformers.modeling_rope_utils"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as caught:
        build().to_transformers()
    assert str(caught.value) == (
        "to_transformers needs the package transformers, version 5 or later: pip install -U transformers."
    )


def test_an_older_transformers_is_refused_in_the_same_sentence(monkeypatch):
    for name in ("transformers", "transformers.modeling_rope_utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    with pytest.raises(ImportError, match=r"^to_transformers needs the package transformers, version 5 or later: "):
        build().to_transformers()


# --- planted mistakes: the comparison with the loops, and that of cached with uncached, go red on each ---


def by_hand(module, x, *, mistake=None, prompt=6):
    """The module's attention, the prompt first and the rest with a cache of it; with one mistake."""
    cached, outputs = None, []
    for part in x.split([prompt, x.shape[1] - prompt], dim=1):
        queries, keys, values = (
            projection(part).unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2)
            for projection in (module.q_proj, module.k_proj, module.v_proj)
        )
        start = 0 if cached is None or mistake == "positions start again at 0" else cached[0].shape[2]
        cos, sin = (torch.cat([each[start : start + part.shape[1]]] * 2, dim=-1) for each in (module.cos, module.sin))

        def turn(each, cos=cos, sin=sin):
            first, second = each.chunk(2, dim=-1)
            return each * cos + torch.cat([-second, first], dim=-1) * sin

        if mistake != "rotary unused":
            queries, keys = turn(queries), turn(keys)
        if mistake == "rotary on values":
            values = turn(values)
        if mistake == "queries alone turned":
            keys = turn(keys, cos, -sin)
        cached = (
            (keys, values)
            if cached is None
            else tuple(map(torch.cat, zip(cached, (keys, values), strict=True), (2, 2)))
        )
        keep = causal_keep(queries.shape[2], cached[0].shape[2])
        if mistake == "causal mask in the top left corner":
            keep = torch.ones_like(keep).tril()
        if mistake == "kv heads tiled":
            shared = [torch.cat([each] * (HEADS // module.num_kv_heads), dim=1) for each in cached]
        else:
            shared = [each.repeat_interleave(HEADS // module.num_kv_heads, dim=1) for each in cached]
        context = attend_fused(queries, *shared, keep)
        outputs.append(module.out_proj(context.transpose(1, 2).flatten(2)))
    return torch.cat(outputs, dim=1)


MISTAKES = [
    "causal mask in the top left corner",
    "rotary on values",
    "rotary unused",
    "queries alone turned",
    "positions start again at 0",
    "kv heads tiled",
]


def test_by_hand_and_without_a_mistake_it_is_the_same():
    module, x = build(kernel="fused", exact=True), draw_x()
    assert_same(by_hand(module, x), reference(module, x)[0])
    assert_same(by_hand(module, x), in_chunks(module, x, [6, 3], cache_for(module)))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_seen(mistake):
    module, x = build(kernel="fused", exact=True), draw_x()
    wrong = by_hand(module, x, mistake=mistake)
    assert wrong.shape == x.shape
    assert (wrong - reference(module, x)[0]).abs().max() > 1e-3
    assert (wrong - in_chunks(module, x, [6, 3], cache_for(module))).abs().max() > 1e-3
