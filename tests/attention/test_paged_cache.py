"""The paged cache: sequences of any length in one memory give what contiguous caches give; blocks come and go."""

import pytest
import torch

from course_lib.attention import BlockPool, KVCache, PagedKVCache, attend, gather_paged

from .form_cases import assert_same
from .loop_reference import loop_attention, to_array
from .test_llama import FLOAT32_SOFTMAX, HEAD_DIM, HEADS, KERNELS, build, draw_x

HEADS_KV, KEY_DIM, VALUE_DIM = 3, 4, 5


def pool_of(num_blocks=11, block_size=4, **options):
    return BlockPool(
        num_blocks, block_size, HEADS_KV, KEY_DIM, **({"value_dim": VALUE_DIM, "dtype": torch.float64} | options)
    )


def draw(tokens, dtype=torch.float64):
    shape = (1, HEADS_KV, tokens)
    return torch.randn(*shape, KEY_DIM, dtype=dtype), torch.randn(*shape, VALUE_DIM, dtype=dtype)


def interleaved(lengths, pool, kind=PagedKVCache, chunk=3):
    """Sequences that grow in turns, so that their blocks lie among each other, beside what they hold, contiguous."""
    caches, whole = [kind(pool) for _ in lengths], [draw(length) for length in lengths]
    for start in range(0, max(lengths), chunk):
        for cache, (keys, values) in zip(caches, whole, strict=True):
            part = slice(start, start + chunk)
            if keys[:, :, part].shape[2]:
                cache.append(keys[:, :, part], values[:, :, part])
    return caches, whole


@pytest.mark.parametrize("block_size", [1, 3, 4, 7, 30])
def test_sequences_of_different_lengths_hold_what_contiguous_caches_hold(block_size):
    lengths = [9, 2, 14]
    caches, whole = interleaved(lengths, pool_of(30, block_size))
    for cache, length, (keys, values) in zip(caches, lengths, whole, strict=True):
        contiguous = KVCache(1, HEADS_KV, length, KEY_DIM, value_dim=VALUE_DIM, dtype=torch.float64)
        contiguous.append(keys, values)
        assert torch.equal(cache.keys, contiguous.keys)
        assert torch.equal(cache.values, contiguous.values)
        assert cache.length == length
        assert len(cache.block_table) == -(-length // block_size)
        assert cache.wasted_slots == -length % block_size
    tables = [block for cache in caches for block in cache.block_table]
    assert len(set(tables)) == len(tables)


@pytest.mark.parametrize("block_size", [1, 3, 4, 30])
def test_a_batch_of_sequences_attends_as_each_does_alone(block_size):
    lengths = [9, 2, 14]
    caches, whole = interleaved(lengths, pool_of(30, block_size))
    queries = 3.0 * torch.randn(3, 6, 1, KEY_DIM, dtype=torch.float64)
    keys, values, keep = gather_paged(caches)
    assert (keys.shape, values.shape, keep.shape) == ((3, 3, 14, 4), (3, 3, 14, 5), (3, 1, 1, 14))
    context, weights = attend(queries, keys, values, keep)
    for sample, (own_keys, own_values) in enumerate(whole):
        arrays = [to_array(each) for each in (queries[sample : sample + 1], own_keys, own_values)]
        expected, expected_weights = loop_attention(*arrays)
        assert_same(context[sample : sample + 1], torch.from_numpy(expected))
        assert_same(weights[sample : sample + 1, ..., : lengths[sample]], torch.from_numpy(expected_weights))


@pytest.mark.parametrize("chunks", [[1] * 9, [9], [2, 3, 4], [6, 1, 1, 1]])
@pytest.mark.parametrize("block_size", [1, 4, 9])
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_module_takes_it_as_any_other_cache(kernel, block_size, chunks):
    module, x = build(kernel=kernel), draw_x(batch=1)
    pool = BlockPool(9, block_size, 2, HEAD_DIM, dtype=torch.float64)
    cache = PagedKVCache(pool)
    with torch.no_grad():
        outputs = [module(part, cache=cache) for part in x.split(chunks, 1)]
    assert_same(torch.cat(outputs, 1), module(x), FLOAT32_SOFTMAX)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_in_other_dtypes_it_is_bit_for_bit(dtype):
    keys, values = draw(7, dtype)
    cache = PagedKVCache(pool_of(dtype=dtype))
    own_keys, own_values = cache.append(keys, values)
    assert torch.equal(own_keys, keys)
    assert torch.equal(own_values, values)
    assert own_keys.dtype == dtype


def test_blocks_are_taken_one_after_the_other_given_back_and_taken_again():
    pool = pool_of(num_blocks=5, block_size=4)
    first, second = PagedKVCache(pool), PagedKVCache(pool)
    first.append(*draw(4))
    second.append(*draw(5))
    first.append(*draw(1))
    assert (first.block_table, second.block_table) == ([0, 3], [1, 2])
    assert (first.wasted_slots, second.wasted_slots, pool.free_blocks) == (3, 3, [4])
    first.free()
    assert (first.length, first.block_table, sorted(pool.free_blocks)) == (0, [], [0, 3, 4])
    third, (keys, values) = PagedKVCache(pool), draw(11)
    before = second.keys.clone()
    assert torch.equal(third.append(keys, values)[0], keys)
    assert sorted(third.block_table) == [0, 3, 4]
    assert torch.equal(second.keys, before)


def test_it_wastes_less_than_a_block_per_sequence_where_a_contiguous_batch_wastes_the_padding():
    lengths = [9, 2, 14]
    caches, _ = interleaved(lengths, pool_of())
    assert [cache.wasted_slots for cache in caches] == [3, 2, 2]
    assert 3 * max(lengths) - sum(lengths) == 17


@pytest.mark.parametrize("length", [3, 4, 9, 12])
def test_a_fork_shares_full_blocks_and_both_go_on_for_themselves(length):
    pool, (prompt, more, other) = pool_of(block_size=4), (draw(length), draw(6), draw(2))
    first = PagedKVCache(pool)
    first.append(*prompt)
    second = first.fork()
    full = length // 4
    assert second.block_table[:full] == first.block_table[:full]
    assert set(second.block_table[full:]).isdisjoint(first.block_table)
    assert [pool.num_users[block] for block in first.block_table] == [2] * full + [1] * (length % 4 > 0)
    first.append(*more)
    second.append(*other)
    assert torch.equal(first.keys, torch.cat([prompt[0], more[0]], 2))
    assert torch.equal(second.values, torch.cat([prompt[1], other[1]], 2))
    first.free()
    assert torch.equal(second.keys, torch.cat([prompt[0], other[0]], 2))
    second.free()
    assert sorted(pool.free_blocks) == list(range(11))
    assert pool.num_users == [0] * 11


def test_an_empty_sequence_and_a_call_without_tokens():
    cache = PagedKVCache(pool_of())
    assert cache.keys.shape == (1, 3, 0, 4)
    assert gather_paged([cache])[2].shape == (1, 1, 1, 0)
    keys, values = cache.append(*draw(0))
    assert (keys.shape, values.shape, cache.block_table) == ((1, 3, 0, 4), (1, 3, 0, 5), [])


def test_what_they_print_of_themselves():
    pool = pool_of(dtype=torch.float32)
    cache = PagedKVCache(pool)
    cache.append(*draw(5, torch.float32))
    assert repr(cache) == "PagedKVCache(5 tokens in the blocks [0, 1], 3 slots wasted)"
    assert repr(pool) == ("BlockPool(9 of 11 blocks free, block_size=4, num_kv_heads=3, head_dim=4, torch.float32)")


# --- refusals ---

FULL = "the sequence needs more blocks ({}) than are free ({} of 3): call free() on a sequence that has ended, or "
FULL += "build BlockPool with more blocks."
CASES = {
    "too many tokens": (lambda cache: cache.append(*draw(12)), ValueError, FULL.format(3, 1)),
    "two samples": (
        lambda cache: cache.append(torch.zeros(2, 3, 1, 4), torch.zeros(2, 3, 1, 5)),
        ValueError,
        "the new keys have batch=2, but the cache was built with batch=1: a cache belongs to one batch, so build a new "
        "PagedKVCache for a different batch.",
    ),
    "another width": (
        lambda cache: cache.append(torch.zeros(1, 3, 1, 6), torch.zeros(1, 3, 1, 5)),
        ValueError,
        "the new keys and values have head_dim=6, but the cache was built with head_dim=4: build BlockPool(num_blocks, "
        "block_size, num_kv_heads, head_dim) with head_dim=6.",
    ),
    "another dtype": (
        lambda cache: cache.append(*draw(1, torch.float32)),
        TypeError,
        "keys are torch.float32, but the cache holds torch.float64: build BlockPool with dtype=torch.float32.",
    ),
    "two pools": (
        lambda cache: gather_paged([cache, PagedKVCache(pool_of())]),
        ValueError,
        "gather_paged needs one or more caches of the same pool: their blocks lie in one memory.",
    ),
    "none": (
        lambda cache: gather_paged([]),
        ValueError,
        "gather_paged needs one or more caches of the same pool: their blocks lie in one memory.",
    ),
    "no pool": (lambda cache: PagedKVCache(cache), TypeError, "pool must be a BlockPool, got PagedKVCache."),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_writes_nothing_and_takes_no_block(case):
    call, kind, sentence = CASES[case]
    pool = pool_of(num_blocks=3)
    cache = PagedKVCache(pool)
    cache.append(*draw(6))
    before = (cache.length, list(cache.block_table), list(pool.free_blocks), pool.keys.clone(), pool.values.clone())
    with pytest.raises(kind) as caught:
        call(cache)
    assert str(caught.value) == sentence
    assert (cache.length, cache.block_table, pool.free_blocks) == before[:3]
    assert torch.equal(pool.keys, before[3])
    assert torch.equal(pool.values, before[4])


def test_a_fork_without_a_free_block_shares_nothing():
    pool = pool_of(num_blocks=2)
    cache = PagedKVCache(pool)
    cache.append(*draw(6))
    with pytest.raises(ValueError, match=r"^the sequence needs more blocks \(1\) than are free \(0 of 2\): "):
        cache.fork()
    assert pool.num_users == [1, 1]


def test_a_module_that_does_not_fit_is_refused():
    pool = BlockPool(3, 4, HEADS, HEAD_DIM, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"^the new keys and values have num_kv_heads=2, but the cache was built with"):
        build(2)(draw_x(batch=1), cache=PagedKVCache(pool))
    assert len(pool.free_blocks) == 3


# --- planted mistakes: the comparison with contiguous caches goes red on each ---


class TableMixedUp(PagedKVCache):
    """The last two blocks change places in the table."""

    def append(self, keys, values):
        super().append(keys, values)
        self.block_table[-2:] = self.block_table[-2:][::-1]
        return self.keys, self.values


class SlotOffByOne(PagedKVCache):
    """Every token lies one slot too late."""

    def append(self, keys, values):
        return super().append(keys.roll(1, 2), values.roll(1, 2))


class SharedBlock(PagedKVCache):
    """All sequences begin in block 0."""

    def append(self, keys, values):
        if not self.block_table:
            self.block_table.append(0)
        return super().append(keys, values)


@pytest.mark.parametrize("wrong", [TableMixedUp, SlotOffByOne, SharedBlock])
def test_a_planted_mistake_is_seen(wrong):
    caches, whole = interleaved([9, 2, 14], pool_of(), wrong)
    assert any(not torch.equal(cache.keys, keys) for cache, (keys, _) in zip(caches, whole, strict=True))
