"""The rolling cache: with a window it gives what the cache of all tokens gives, and holds the window and the sinks."""

import pytest
import torch

from course_lib.attention import KVCache, LlamaAttention, RollingKVCache, attend, window_keep

from .form_cases import assert_same
from .test_kv_cache import CHUNKS, assert_untouched, in_chunks, state_of
from .test_llama import BATCH, HEAD_DIM, KERNELS, TOKENS, build, draw_x, padding
from .test_windows import WINDOWS, reference, window_by_hand

LONG = 23
LONG_CHUNKS = {
    "one by one": [1] * LONG,
    "prompt, then steps": [9] + [1] * 14,
    "mixed": [2, 7, 1, 1, 8, 4],
    "all": [LONG],
}


def rolling_for(module, kind=RollingKVCache, **options):
    options = {"num_sinks": module.num_sinks, "dtype": module.k_proj.weight.dtype} | options
    return kind(BATCH, module.num_kv_heads, module.window, module.head_dim, **options)


@torch.no_grad()
def run(module, x, chunks, cache, keep=None):
    """The outputs of one call after the other; keep is for the whole sequence, and cut by the cache's positions."""
    outputs = []
    for part in x.split(chunks, 1):
        own = None if keep is None else keep[..., cache.key_positions(part.shape[1])]
        outputs.append(module(part, cache=cache, keep=own))
    return torch.cat(outputs, 1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("window", "num_sinks"), WINDOWS)
@pytest.mark.parametrize("chunks", LONG_CHUNKS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_equals_the_loops_and_the_full_cache(kernel, chunks, window, num_sinks):
    module, x = build(kernel=kernel, exact=True, window=window, num_sinks=num_sinks), draw_x(tokens=LONG)
    module.softmax_dtype = None  # all in float64
    expected = reference(module, x, window_by_hand(LONG, LONG, window, num_sinks))
    full = KVCache(BATCH, 2, LONG, HEAD_DIM, dtype=torch.float64)
    rolling = rolling_for(module)
    assert_same(in_chunks(module, x, LONG_CHUNKS[chunks], full), expected)
    assert_same(in_chunks(module, x, LONG_CHUNKS[chunks], rolling), expected)
    assert rolling.nbytes == BATCH * 2 * (window + num_sinks) * 2 * HEAD_DIM * 8
    held = [p for p in range(LONG) if p < num_sinks or p >= LONG - window]
    assert rolling.positions == held
    assert_same(rolling.keys, full.keys[:, :, held], 1e-14)
    assert_same(rolling.values, full.values[:, :, held], 1e-14)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_with_left_padding_the_mask_is_cut_by_the_positions(kernel, chunks):
    module, x, (keep, _) = build(kernel=kernel, window=3, num_sinks=2), draw_x(), padding("left")
    module.softmax_dtype = None
    assert_same(run(module, x, CHUNKS[chunks], rolling_for(module), keep), module(x, keep=keep))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 4e-6), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_other_dtypes(dtype, tolerance):
    module, x = build(boost=1.0, window=3, num_sinks=1).to(dtype), draw_x(dtype=dtype)
    output = run(module, x, [4, 1, 1, 3], rolling_for(module))
    assert output.dtype == dtype
    assert_same(output, reference(module, x, window_by_hand(TOKENS, TOKENS, 3, 1)), tolerance)


def test_each_token_lies_in_its_slot():
    """Sinks stay in front; the rest goes round, each over the one that is a window older."""
    cache, slots = RollingKVCache(1, 1, 3, 1, num_sinks=2), []
    for position in range(9):
        cache.append(*torch.full((2, 1, 1, 1, 1), float(position)))
        slots.append(cache._keys.flatten().int().tolist())
    assert slots[4] == [0, 1, 2, 3, 4]
    assert slots[5:] == [[0, 1, 5, 3, 4], [0, 1, 5, 6, 4], [0, 1, 5, 6, 7], [0, 1, 8, 6, 7]]
    assert cache.keys.flatten().int().tolist() == cache.positions == [0, 1, 6, 7, 8]


@pytest.mark.parametrize("new", [1, 2, 5, 20])
def test_what_append_returns_are_the_positions_it_says(new):
    for before in range(12):
        cache = RollingKVCache(1, 1, 4, 2, num_sinks=1)
        filler = torch.arange(before + new).float()[None, None, :, None].expand(-1, -1, -1, 2)
        cache.append(filler[:, :, :before], filler[:, :, :before])
        positions = list(cache.key_positions(new))
        assert cache.key_len(new) == len(positions)
        keys, values = cache.append(filler[:, :, before:], -filler[:, :, before:])
        assert keys[0, 0, :, 0].int().tolist() == positions
        assert values[0, 0, -new:, 1].tolist() == [-float(p) for p in range(before, before + new)]
        assert window_keep(new, len(positions), 4, num_sinks=1).any(0).all(), "no key comes back that no query needs"


def test_attend_takes_what_it_returns():
    queries, keys, values = torch.randn(3, 1, 2, 10, 4, dtype=torch.float64)
    expected, _ = attend(queries, keys, values, window_keep(10, 10, 3))
    cache = RollingKVCache(1, 2, 3, 4, dtype=torch.float64)
    contexts = []
    for start, end in ((0, 6), (6, 7), (7, 10)):
        own_keys, own_values = cache.append(keys[:, :, start:end], values[:, :, start:end])
        keep = window_keep(end - start, own_keys.shape[2], 3)
        contexts.append(attend(queries[:, :, start:end], own_keys, own_values, keep)[0])
    assert_same(torch.cat(contexts, 2), expected)


def test_inference_mode_and_rewind():
    module, x = build(window=3), draw_x()
    cache = rolling_for(module)
    with torch.inference_mode():
        first = run(module, x, [4, 5], cache)
    cache.rewind()
    assert (cache.length, cache.positions) == (0, [])
    assert_same(run(module, x, [4, 5], cache), first, 0.0)
    cache.rewind(cache.length)
    assert cache.length == TOKENS
    cache.rewind()
    run(module, x[:, :3], [3], cache)
    cache.rewind(1)  # nothing was overwritten yet
    assert_same(run(module, x[:, 1:], [8], cache), module(x)[:, 1:], 1e-6)


def test_it_rewinds_until_sinks_and_window_are_full():
    cache = RollingKVCache(1, 2, 3, 4, num_sinks=2)
    cache.append(*torch.zeros(2, 1, 2, 5, 4))
    cache.rewind(4)
    assert cache.positions == [0, 1, 2, 3]


def test_what_it_prints_of_itself():
    cache = RollingKVCache(1, 2, 3, 4, num_sinks=1)
    cache.append(*torch.zeros(2, 1, 2, 9, 4))
    assert repr(cache) == "RollingKVCache(4 of 9 tokens, window=3, num_sinks=1, torch.float32, 256 bytes)"


# --- refusals ---

KEPT = (
    "the cache keeps window=3 and num_sinks=1, but the module attends to window={} and num_sinks={}: build both with "
)
KEPT += "the same, or use a KVCache, which keeps all."


@pytest.mark.parametrize(("window", "num_sinks"), [(None, 0), (4, 1), (3, 0), (3, 2)])
def test_a_module_with_another_window_is_refused(window, num_sinks):
    cache = RollingKVCache(BATCH, 2, 3, HEAD_DIM, num_sinks=1, dtype=torch.float64)
    before = state_of(cache)
    with pytest.raises(ValueError) as caught:
        build(window=window, num_sinks=num_sinks)(draw_x(), cache=cache)
    assert str(caught.value) == KEPT.format(window, num_sinks)
    assert_untouched(cache, before)


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (
            lambda cache: cache.append(*torch.ones(2, 2, 2, 1, 4)),
            ValueError,
            "the new keys have batch=2, but the cache was built with batch=1: a cache belongs to one batch, so build a "
            "new RollingKVCache for a different batch.",
        ),
        (
            lambda cache: cache.append(*torch.ones(2, 1, 2, 1, 5)),
            ValueError,
            "the new keys and values have head_dim=5, but the cache was built with head_dim=4: build "
            "RollingKVCache(batch, num_kv_heads, window, head_dim) with head_dim=5.",
        ),
        (
            lambda cache: cache.append(*torch.ones(2, 1, 2, 1, 4).half()),
            TypeError,
            "keys are torch.float16, but the cache holds torch.float32: build RollingKVCache with dtype=torch.float16.",
        ),
        (
            lambda cache: cache.rewind(5),
            ValueError,
            "the cache has overwritten tokens before position 6, so it can't go back to length=5: start again with "
            "cache.rewind().",
        ),
        (
            lambda cache: cache.rewind(10),
            ValueError,
            "length=10 is more than the 9 tokens in the cache: rewind can only shorten it.",
        ),
    ],
)
def test_a_refusal_writes_nothing(call, kind, sentence):
    cache = RollingKVCache(1, 2, 3, 4, num_sinks=1)
    cache.append(*torch.randn(2, 1, 2, 9, 4))
    before = state_of(cache)
    with pytest.raises(kind) as caught:
        call(cache)
    assert str(caught.value) == sentence
    assert_untouched(cache, before)


# --- planted mistakes: the comparison with the loops goes red on each ---


class OneShort(RollingKVCache):
    """The window loses its oldest token."""

    def key_positions(self, new):
        positions = list(super().key_positions(new))
        return [p for p in positions if p < self.num_sinks or p != self.length - self._window + 1]


class SinksRoll(RollingKVCache):
    """The sinks are overwritten as the rest."""

    def _slots(self, positions):
        return [p % self.max_len for p in positions]


class InSlotOrder(RollingKVCache):
    """The keys come back in the order of their slots."""

    def key_positions(self, new):
        return sorted(super().key_positions(new), key=lambda p: (p >= self.length, self._slots([p])[0]))


class LengthOfTheWindow(RollingKVCache):
    """The length ends at what is held, so that positions for rotary start again."""

    def append(self, keys, values):
        results = super().append(keys, values)
        self.seen, self.length = self.length, min(self.length, self.max_len)
        return results


@pytest.mark.parametrize("wrong", [OneShort, SinksRoll, InSlotOrder, LengthOfTheWindow])
def test_a_planted_mistake_is_seen(wrong):
    module, x = build(window=4, num_sinks=2, exact=True), draw_x(tokens=LONG)
    expected = reference(module, x, window_by_hand(LONG, LONG, 4, 2))
    chunks = [11, 5, 1, 1, 5]  # at 11 and at 18 the circle has wrapped
    assert_same(run(module, x, chunks, rolling_for(module)), expected, 1e-6)
    assert (run(module, x, chunks, rolling_for(module, wrong)) - expected).abs().max() > 1e-3


def test_rotary_positions_that_start_again_would_be_seen():
    """Positions counted within the cache, for new queries and keys, while the old keys keep theirs."""
    module, x = build(window=4, exact=True), draw_x(tokens=LONG)
    expected = reference(module, x, window_by_hand(LONG, LONG, 4))
    cache, outputs = rolling_for(module), []
    with torch.no_grad():
        for t in range(LONG):
            outputs.append(module(x[:, t : t + 1], cache=cache, positions=torch.tensor([min(t, 3)])))
    assert (torch.cat(outputs, 1) - expected).abs().max() > 1e-3


def test_a_text_longer_than_the_table_still_needs_positions_in_it():
    module = LlamaAttention(8, 2, window=2, max_positions=3)
    cache = RollingKVCache(1, 2, 2, 4)
    with torch.no_grad():
        module(torch.zeros(1, 3, 8), cache=cache)
        with pytest.raises(ValueError, match=r"^position 3 is beyond the table of max_positions=3: "):
            module(torch.zeros(1, 1, 8), cache=cache)
