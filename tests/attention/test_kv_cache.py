"""The cache: step by step gives what the whole sequence gives, in memory taken once, and refusals write nothing."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.attention import KVCache, MultiHeadAttention, attend, causal_keep, padding_keep

from .error_cases import CACHE_REFUSALS, filled_cache
from .form_cases import BATCH, D_IN, FAMILY, FORMS, HEADS, TOKENS, assert_same, build, build_kernel, draw_x, reference

CHUNKS = {
    "all at once": [9],
    "one by one": [1] * 9,
    "in threes": [3, 3, 3],
    "prompt, then steps": [6, 1, 1, 1],
    "chunks that grow": [2, 3, 4],
}
SAMPLE_LENGTHS = [TOKENS, 4]
KEEPS = {
    "no mask": lambda: None,
    "right padding": lambda: padding_keep(SAMPLE_LENGTHS),
    "left padding": lambda: padding_keep(SAMPLE_LENGTHS, side="left"),
    "(query, key)": lambda: torch.rand(TOKENS, TOKENS) < 0.7,
    "(batch, head, query, key)": lambda: torch.rand(BATCH, HEADS, TOKENS, TOKENS) < 0.7,
}


def cache_for(module, batch=BATCH, max_len=TOKENS, **options):
    """A cache of the module's sizes, and of its dtype and device."""
    kv_heads, head_dim, value_dim = module.cache_sizes
    weight = module.k_proj.weight
    options = {"dtype": weight.dtype, "device": weight.device} | options
    return KVCache(batch, kv_heads, max_len, head_dim, value_dim=value_dim, **options)


def rows_of(keep, start, end):
    """The part of a mask for the whole sequence that tokens start to end - 1 need: their rows, the keys until then."""
    if keep is None:
        return None
    return keep[..., start:end, :end] if keep.shape[-2] > 1 else keep[..., :end]


@torch.no_grad()
def in_chunks(module, x, chunks, cache, keep=None, **options):
    """The outputs of one call after the other."""
    outputs, start = [], 0
    for length in chunks:
        end = start + length
        outputs.append(module(x[:, start:end], cache=cache, keep=rows_of(keep, start, end), **options))
        assert cache.length == end
        start = end
    assert start == x.shape[1]
    return torch.cat(outputs, dim=1)


def state_of(cache):
    return cache.length, cache._keys.clone(), cache._values.clone()


def assert_untouched(cache, before):
    assert cache.length == before[0]
    assert torch.equal(cache._keys, before[1])
    assert torch.equal(cache._values, before[2])


# --- cached = uncached ---


@pytest.mark.one_in(4)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_cached_equals_uncached(name, kernel, chunks, keep):
    module, x, mask = build_kernel(name, kernel, bias=True), draw_x(), KEEPS[keep]()
    expected, _ = reference(module, name, x, keep=mask)
    assert_same(in_chunks(module, x, CHUNKS[chunks], cache_for(module), mask), expected)
    assert_same(in_chunks(module, x, CHUNKS[chunks], cache_for(module, max_len=50), mask), module(x, keep=mask))


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_in_float32_too(name, kernel):
    module, x = build_kernel(name, kernel, dtype=torch.float32, boost=1.0), draw_x(dtype=torch.float32)
    assert_same(in_chunks(module, x, [5, 1, 3], cache_for(module)), module(x), 2e-6)


@pytest.mark.parametrize("name", [name for name, kernel in FAMILY if kernel == "explicit"])
def test_the_weights_of_a_chunk_are_the_rows_of_the_whole(name):
    module, x, keep = build(name), draw_x(), padding_keep(SAMPLE_LENGTHS, side="left")
    cache = cache_for(module)
    with torch.no_grad():
        _, expected = module(x, keep=keep, return_weights=True)
        for start, end in ((0, 4), (4, 5), (5, 9)):
            options = {"keep": keep[..., :end], "return_weights": True}
            output, weights = module(x[:, start:end], cache=cache, **options)
            assert weights.shape == (BATCH, HEADS, end - start, end)
            assert_same(weights, expected[:, :, start:end, :end])
            assert output.shape[1] == end - start


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_without_a_causal_mask_x_attends_to_all_that_is_there(name, kernel):
    module, x = build_kernel(name, kernel, causal=False), draw_x()
    cache = cache_for(module)
    first, second = x.split([6, 3], dim=1)
    with torch.no_grad():
        assert_same(module(first, cache=cache), module(first))
        assert_same(module(second, cache=cache), module(second, context=x))


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_samples_do_not_see_each_other(name, kernel):
    module, x = build_kernel(name, kernel), draw_x()
    changed = x.clone()
    changed[0] = 5.0
    output, other = (in_chunks(module, each, [4, 5], cache_for(module)) for each in (x, changed))
    assert torch.equal(other[1], output[1])
    assert not torch.equal(other[0], output[0])


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_dropout_does_not_reach_the_cache(name, kernel):
    module, x = build_kernel(name, kernel, dropout=0.5).train(), draw_x()
    caches = cache_for(module), cache_for(module)
    in_chunks(module, x, [4, 5], caches[0])
    in_chunks(module.eval(), x, [9], caches[1])
    assert_same(caches[0].keys, caches[1].keys)
    assert_same(caches[0].values, caches[1].values)


@pytest.mark.parametrize("enter", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("leave", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("built_in", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_no_grad_and_inference_mode_may_follow_each_other(built_in, enter, leave):
    module, x = build("grouped 2"), draw_x()
    with built_in():
        cache = cache_for(module)
    with enter():
        first = module(x[:, :4], cache=cache)
    with leave():
        second = module(x[:, 4:], cache=cache)
    assert_same(torch.cat([first, second], dim=1), module(x))


def test_a_frozen_module_needs_no_word_about_gradients():
    module, x = build("split").requires_grad_(False), draw_x()
    cache = cache_for(module)
    outputs = [module(chunk, cache=cache) for chunk in x.split(3, dim=1)]
    assert_same(torch.cat(outputs, dim=1), module(x))


def test_under_no_grad_keys_may_be_parameters():
    cache, keys = KVCache(1, 1, 5, 2), torch.ones(1, 1, 2, 2, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(cache.append(keys, keys)[0], keys)
    assert not cache.keys.requires_grad


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_no_token_in_nothing_out_and_nothing_written(name, kernel):
    module, x = build_kernel(name, kernel), draw_x()
    cache = cache_for(module)
    with torch.no_grad():
        module(x[:, :4], cache=cache)
        before = state_of(cache)
        assert module(x[:, :0], cache=cache).shape == (BATCH, 0, module.out_proj.out_features)
        assert_untouched(cache, before)


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_under_autocast_keys_come_in_its_dtype(name, kernel):
    module, x = build_kernel(name, kernel, boost=1.0).float(), draw_x(dtype=torch.float32)
    cache = cache_for(module, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = in_chunks(module, x, [4, 1, 4], cache)
        wrong = cache_for(module)
        with pytest.raises(TypeError) as caught, torch.no_grad():
            module(x, cache=wrong)
    assert output.dtype == torch.bfloat16
    assert_same(output, reference(module, name, x)[0], 3e-2)
    sentence = "keys are torch.bfloat16, but the cache holds torch.float32: build KVCache with dtype=torch.bfloat16."
    assert str(caught.value) == sentence
    assert wrong.length == 0


def test_on_the_meta_device():
    module, x = build("multi-query, own widths").to("meta"), draw_x().to("meta")
    cache = cache_for(module)
    assert in_chunks(module, x, [4, 5], cache).device.type == "meta"
    assert cache.keys.device.type == "meta"


# --- the memory ---


def test_bytes_are_taken_once():
    for options, size in (({}, 4), ({"dtype": torch.float64}, 8), ({"dtype": torch.bfloat16}, 2)):
        cache = KVCache(2, 3, 7, 4, value_dim=5, **options)
        assert cache.nbytes == 2 * 3 * 7 * (4 + 5) * size
        assert cache._keys.untyped_storage().nbytes() == 2 * 3 * 7 * 4 * size
        assert cache._values.untyped_storage().nbytes() == 2 * 3 * 7 * 5 * size
    assert KVCache(2, 3, 7, 4).nbytes == 2 * 3 * 7 * (4 + 4) * 4


def test_multi_query_keeps_num_heads_times_less():
    caches = [cache_for(build(name)) for name in ("split", "grouped 2", "multi-query")]
    assert [caches[0].nbytes // cache.nbytes for cache in caches] == [1, 3, HEADS]


class Results(TorchDispatchMode):
    """Collects what every operation gives."""

    def __init__(self):
        super().__init__()
        self.tensors = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        self.tensors.append(result)
        return result


def test_append_writes_in_place_and_gives_views():
    cache = KVCache(2, 3, 7, 4, value_dim=5)
    own = {cache._keys.data_ptr(), cache._values.data_ptr()}
    storages = {each.untyped_storage().data_ptr() for each in (cache._keys, cache._values)}
    written = []
    for number, new in enumerate((3, 1, 2, 1)):
        keys, values = torch.full((2, 3, new, 4), float(number)), torch.full((2, 3, new, 5), -float(number))
        with Results() as results:
            all_keys, all_values = cache.append(keys, values)
        assert {each.untyped_storage().data_ptr() for each in results.tensors} <= storages | {
            each.untyped_storage().data_ptr() for each in (keys, values)
        }
        assert {all_keys.data_ptr(), all_values.data_ptr()} == own
        assert torch.equal(all_keys, cache.keys)
        assert torch.equal(all_values, cache.values)
        written += [number] * new
        assert cache.length == len(written) == all_keys.shape[2]
        assert all_keys[1, 2, :, 3].tolist() == written
        assert all_values[1, 2, :, 4].tolist() == [-each for each in written]
    assert cache.length == cache.max_len == 7


def test_what_append_gave_stays_when_more_comes_and_is_overwritten_after_a_rewind():
    cache = KVCache(1, 1, 5, 2)
    ones = torch.ones(1, 1, 2, 2)
    keys, _ = cache.append(ones, ones)
    cache.append(2 * ones, 2 * ones)
    assert torch.equal(keys, ones)
    cache.rewind(1)
    cache.append(3 * ones, 3 * ones)
    assert keys[0, 0, :, 0].tolist() == [1.0, 3.0]


def test_the_given_tensors_are_copied_and_stay_as_they_are():
    cache, keys = KVCache(1, 1, 5, 2), torch.ones(1, 1, 2, 2)
    cache.append(keys, keys)
    keys.fill_(7.0)
    assert (cache.keys == 1).all()
    assert (keys == 7).all()


def test_where_and_as_what_it_is_kept():
    assert KVCache(1, 1, 2, 2).keys.dtype == torch.get_default_dtype()
    assert KVCache(1, 1, 2, 2, dtype=torch.float16).values.dtype == torch.float16
    assert KVCache(1, 1, 2, 2, device="meta").keys.device.type == "meta"
    assert KVCache(1, 1, 2, 2, device=torch.device("cpu")).keys.device.type == "cpu"


def test_an_empty_cache_holds_nothing():
    cache = KVCache(2, 3, 7, 4, value_dim=5)
    assert (cache.length, cache.max_len) == (0, 7)
    assert cache.keys.shape == (2, 3, 0, 4)
    assert cache.values.shape == (2, 3, 0, 5)


def test_what_it_prints_of_itself():
    assert repr(filled_cache()) == (
        "KVCache(4 of 7 tokens, batch=2, num_kv_heads=3, head_dim=4, torch.float32, 1,512 bytes)"
    )


# --- rewind ---


@pytest.mark.parametrize("length", [0, 1, 4, 5])
def test_rewound_it_goes_on_as_if_the_rest_had_never_come(length):
    module, x = build("grouped 3, own widths"), draw_x()
    other = torch.cat([x[:, :length], draw_x()[:, length:]], dim=1)
    cache = cache_for(module)
    with torch.no_grad():
        module(x[:, :5], cache=cache)
        cache.rewind(length)
        assert cache.length == length
        assert_same(module(other[:, length:], cache=cache), module(other)[:, length:])


def test_rewind_forgets_everything_if_no_length_is_given():
    cache = filled_cache()
    cache.rewind()
    assert cache.length == 0
    assert cache.keys.shape[2] == 0


# --- refusals ---


@pytest.mark.parametrize("refusal", CACHE_REFUSALS, ids=lambda refusal: refusal.name)
def test_a_refusal_writes_nothing(refusal):
    cache = filled_cache(refusal.value_dim)
    before = state_of(cache)
    with pytest.raises(refusal.kind) as caught:
        refusal.call(cache)
    assert str(caught.value) == refusal.sentence
    assert_untouched(cache, before)
    cache.append(torch.ones(2, 3, 3, 4), torch.ones(2, 3, 3, refusal.value_dim))  # and it still takes what fits


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_a_full_cache_refuses_one_more_and_keeps_what_it_has(name, kernel):
    module, x = build_kernel(name, kernel), draw_x()
    cache = cache_for(module)
    in_chunks(module, x, [9], cache)
    before = state_of(cache)
    with (
        pytest.raises(ValueError, match=r"^the cache holds 9 of max_len=9 tokens and has no room for 1 more: "),
        torch.no_grad(),
    ):
        module(x[:, :1], cache=cache)
    assert_untouched(cache, before)


def test_another_dtype_in_the_module_is_refused_before_anything_is_written():
    module, cache = build("grouped 2"), cache_for(build("grouped 2"), dtype=torch.float32)
    with (
        pytest.raises(TypeError, match=r"^keys are torch\.float64, but the cache holds torch\.float32: "),
        torch.no_grad(),
    ):
        module(draw_x(), cache=cache)
    assert_untouched(cache, (0, torch.zeros_like(cache._keys), torch.zeros_like(cache._values)))


# --- planted mistakes: the comparison above goes red on each ---


def causal_top_left(query_len, key_len=None, *, device=None):
    return torch.ones(query_len, key_len, dtype=torch.bool, device=device).tril()


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_a_causal_mask_in_the_top_left_corner_would_be_noticed(kernel, monkeypatch):
    module, x = build("split", kernel=kernel), draw_x()
    monkeypatch.setattr("course_lib.attention.core.causal_keep", causal_top_left)
    assert_same(module(x), reference(module, "split", x)[0])  # without a cache nobody sees it
    assert (in_chunks(module, x, [6, 3], cache_for(module)) - module(x)).abs().max() > 1e-3


class Stale(KVCache):
    """Each chunk is written over the first tokens."""

    def append(self, keys, values):
        length = self.length
        self._keys[:, :, : keys.shape[2]] = keys
        self._values[:, :, : keys.shape[2]] = values
        self.length = length + keys.shape[2]
        return self.keys, self.values


class Forgetful(KVCache):
    """It gives back what is new, not all there is."""

    def append(self, keys, values):
        super().append(keys, values)
        return keys, values


@pytest.mark.parametrize("wrong", [Stale, Forgetful])
def test_a_cache_that_loses_tokens_would_be_noticed(wrong):
    module, x = build("multi-query"), draw_x()
    cache = wrong(BATCH, 1, TOKENS, module.head_dim, value_dim=module.value_dim, dtype=torch.float64)
    assert (in_chunks(module, x, [6, 1, 1, 1], cache) - module(x)).abs().max() > 1e-3


def test_heads_that_take_turns_at_the_kv_heads_would_be_noticed():
    """Kv heads tiled: head i reads kv head i % 2 where consecutive heads must share one."""
    module, x = build("grouped 2", out_proj=False), draw_x()
    queries, keys, values = (
        projection(x).unflatten(-1, (-1, module.head_dim)).transpose(1, 2)
        for projection in (module.q_proj, module.k_proj, module.v_proj)
    )
    for repeat, is_right in (
        (torch.Tensor.repeat_interleave, True),
        (lambda each, times, dim: torch.cat([each] * times, dim), False),
    ):
        context, _ = attend(queries, repeat(keys, 3, dim=1), repeat(values, 3, dim=1), causal_keep(TOKENS))
        difference = (context.transpose(1, 2).flatten(2) - module(x)).abs().max()
        assert (difference < 1e-12) == is_right
        assert is_right or difference > 1e-3


def test_the_family_has_every_number_of_kv_heads():
    assert {FORMS[name].num_kv_heads for name, _ in FAMILY} == {1, 2, 3, HEADS}
    assert MultiHeadAttention(D_IN, 6, 3)(torch.zeros(1, 2, D_IN)).shape == (1, 2, 6)
