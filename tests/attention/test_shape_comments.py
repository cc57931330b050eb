"""The shape comments of the library say what its code really does: each is compared with a recording of its line."""

import inspect
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from course_lib.attention import (
    BlockPool,
    GroupedQueryAttention,
    KVCache,
    LatentAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    PagedKVCache,
    SingleHeadAttention,
    apply_rotary,
    attend_fused,
    gather_paged,
    padding_keep,
    rotary_table,
    softmax_with_sink,
    to_torch_mask,
)
from course_lib.recorder import record

from .shape_comments import commented_lines, lies, shapes_in

# Sizes that all differ, also their products.
B, T, M, H, G, D, D_OUT = 2, 5, 11, 6, 3, 7, 13
CACHED = 9  # tokens that are in a cache before the T new ones come
L, R, V = 8, 4, 10  # of latent attention: latent, rotary part and value
BLOCKS, SLOTS = 4, 3  # of a paged cache: blocks of the longest sequence, and tokens per block
PAIR, POSITIONS = 4, 17  # of rotary positions: head_dim is even then


def sizes(h=H, g=None, d=D, cached=0):
    g = g or h
    letters = {"b": B, "batch": B, "t": T, "q": T, "k": T, "key": T, "m": M, "h": h, "g": g, "d": d, "d_out": D_OUT}
    letters |= {"k": cached + T, "new": T, "pair": PAIR, "position": POSITIONS}
    return letters | {"f": h // g * T}


def with_cache(module, cached=CACHED):
    """The module on T new tokens, behind others that are in its cache already; without those if cached is 0."""
    kv_heads = module.k_proj.out_features // module.head_dim

    def run(x):
        cache = KVCache(B, kv_heads, CACHED + T, module.head_dim)
        if cached:
            cache.append(*torch.zeros(2, B, kv_heads, cached, module.head_dim))
        with torch.no_grad():
            return module(x, cache=cache)

    return run


def with_latent_cache(module, absorb, cached):
    """The same for latent attention."""

    def run(x):
        cache = KVCache(B, 1, CACHED + T, R, value_dim=L)
        if cached:
            cache.append(torch.zeros(B, 1, cached, R), torch.zeros(B, 1, cached, L))
        with torch.no_grad():
            return module(x, cache=cache, absorb=absorb)

    return run


def cases():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(B, T, M, generator=generator)
    own_mask = torch.ones(B, H, T, T, dtype=torch.bool)
    widths = {"d_qk": H * D, "d_v": H * D}
    yield SingleHeadAttention(M, D), (x,), sizes(h=1)
    wrapper = MultiHeadAttentionWrapper(M, H * D, H)
    # Its heads run the formula one head at a time, which the first case has compared.
    yield lambda x: wrapper(x, keep=own_mask, return_weights=True), (x,), sizes() | {"d_out": H * D, "file": "wrapper"}
    for kernel in ("explicit", "fused"):
        yield MultiHeadAttention(M, D_OUT, H, kernel=kernel, **widths), (x,), sizes()
        yield MultiQueryAttention(M, D_OUT, H, kernel=kernel, **widths), (x,), sizes(g=1)
        yield GroupedQueryAttention(M, D_OUT, H, num_kv_heads=G, kernel=kernel, **widths), (x,), sizes(g=G)
        for cached in (CACHED, 0):
            for module, g in (
                (MultiHeadAttention(M, D_OUT, H, kernel=kernel, **widths), H),
                (MultiQueryAttention(M, D_OUT, H, kernel=kernel, **widths), 1),
                (GroupedQueryAttention(M, D_OUT, H, num_kv_heads=G, kernel=kernel, **widths), G),
            ):
                yield with_cache(module, cached), (x,), sizes(g=g, cached=cached)
            llama = LlamaAttention(M, H, num_kv_heads=G, head_dim=2 * PAIR, kernel=kernel)
            # What it does in rotary.py it does with heads of two numbers: compared below.
            yield with_cache(llama, cached), (x,), sizes(g=G, d=2 * PAIR, cached=cached) | {"file": "llama"}
        yield llama, (x,), sizes(g=G, d=2 * PAIR) | {"file": "llama"}
        latent = LatentAttention(M, H, latent_dim=L, head_dim=D, rotary_dim=R, value_dim=V, kernel=kernel)
        for absorb in (False, True):
            for cached in (CACHED, 0):
                run, letters = with_latent_cache(latent, absorb, cached), {"l": L, "r": R, "v": V, "file": "latent"}
                yield run, (x,), sizes(cached=cached) | letters
    pool = BlockPool(9, SLOTS, G, D)
    caches = [PagedKVCache(pool) for _ in range(B)]
    for cache, length in zip(caches, (BLOCKS * SLOTS, 5), strict=True):
        cache.append(*torch.zeros(2, 1, G, length, D))
    letters = {"file": "paged_cache", "batch": B, "block": BLOCKS, "slot": SLOTS, "k": BLOCKS * SLOTS}
    yield lambda: gather_paged(caches), (), sizes(g=G) | letters
    yield lambda: softmax_with_sink(torch.zeros(B, H, T, T + 1), torch.zeros(H)), (), sizes()
    to_turn, table = torch.randn(B, H, T, 2 * PAIR, generator=generator), rotary_table(POSITIONS, 2 * PAIR)
    positions = torch.arange(B * T).view(B, T)
    yield lambda: rotary_table(POSITIONS, 2 * PAIR), (), sizes(d=2 * PAIR)
    yield lambda: apply_rotary(to_turn, *(each[positions] for each in table)), (), sizes(d=2 * PAIR)
    yield lambda: apply_rotary(to_turn, *(each[:T] for each in table)), (), sizes(d=2 * PAIR)
    q, kv = torch.randn(B, H, T, D, generator=generator), torch.randn(B, G, T, D + 1, generator=generator)
    yield lambda: attend_fused(q, kv[..., :D], kv[..., :D], own_mask, 0.1), (), sizes(g=G)
    yield lambda: padding_keep([T, 3]), (), sizes()
    yield lambda: to_torch_mask(own_mask, num_heads=H), (), sizes()


@pytest.fixture(scope="module")
def recorded():
    """Each case's steps, and beside them the calls of `KVCache.append`: a line that calls it has no step of its own."""
    append, calls = KVCache.append, []

    def watched(self, keys, values):
        place, results = sys._getframe(1), append(self, keys, values)
        call = SimpleNamespace(args=(keys, values))
        for result in results:
            where = {"file": place.f_code.co_filename, "line": place.f_lineno}
            calls.append(SimpleNamespace(call=call, shape=tuple(result.shape), **where))
        return results

    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KVCache, "append", watched)
        for run, args, numbers in cases():
            calls.clear()
            steps = list(record(run, *args).steps)
            found.append((steps + calls, numbers))
    return found


FILES = sorted({Path(inspect.getfile(cls)) for cls in (
    SingleHeadAttention, MultiHeadAttentionWrapper, MultiHeadAttention, MultiQueryAttention, GroupedQueryAttention,
    LlamaAttention, KVCache, LatentAttention, PagedKVCache, softmax_with_sink,
    apply_rotary, attend_fused, padding_keep, MultiHeadAttention.__base__,
)})  # fmt: skip
WITHOUT_COMMENTS = {"kv_cache", "base"}  # nothing there changes a shape


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_comment_agrees_with_the_line_it_stands_on(path, recorded):
    compared = set()
    for steps, numbers in recorded:
        if numbers.get("file", path.stem) != path.stem:
            continue
        found, here = lies(path, list(steps), numbers)
        assert found == []
        compared |= here
    assert compared == {number for number, _ in commented_lines(path)}, "a comment that no recording reaches"
    assert (compared == set()) == (path.stem in WITHOUT_COMMENTS)


def test_a_comment_reads_as_integers():
    numbers = sizes(g=G)
    assert shapes_in("(b, t, m) -> (b, t, h, d)", numbers) == [[(2, 5, 11)], [(2, 5, 6, 7)]]
    assert shapes_in("(b, g, f, d) @ (b, g, d, k) -> (b, g, f, k)", numbers) == [
        [(2, 3, 10, 7), (2, 3, 7, 5)],
        [(2, 3, 10, 5)],
    ]
    assert shapes_in("h times (b, t, d) -> (b, t, h * d)", numbers) == [[(2, 5, 7)], [(2, 5, 42)]]
    assert shapes_in("(b, t, m) -> (b, t, d) -> (b, 1, t, d): one head", numbers)[-1] == [(2, 1, 5, 7)]
    cached = sizes(cached=CACHED)
    assert shapes_in("(b, h, new, d) -> (b, h, k, d)", cached) == [[(2, 6, 5, 7)], [(2, 6, 14, 7)]]


@pytest.mark.parametrize(
    ("lie", "times"),  # with each kernel; the second is true while the cache is empty
    [("(b, new, h, d) -> (b, h, k, d)", 4), ("(b, h, new, d) -> (b, h, new, d)", 2)],
)
def test_a_lie_about_the_cache_is_found(lie, times, recorded, tmp_path):
    source = Path(inspect.getfile(MultiHeadAttention))
    true = "(b, h, new, d) -> (b, h, k, d)"
    text = source.read_text(encoding="utf-8")
    assert true in text
    (tmp_path / source.name).write_text(text.replace(true, lie), encoding="utf-8")
    found = []
    for steps, numbers in recorded:
        here = [
            SimpleNamespace(file=str(tmp_path / source.name), line=step.line, shape=step.shape, call=step.call)
            for step in steps
            if step.file == str(source) and isinstance(step, SimpleNamespace)
        ]
        if "file" not in numbers:
            found += lies(tmp_path / source.name, here, numbers)[0]
    assert len(found) == times


@pytest.mark.parametrize(
    ("true", "lie"),
    [
        ("# (b, t, h, d) -> (b, h, t, d)", "# (b, t, h, d) -> (b, t, h, d)"),
        ("# (b, t, m) -> (b, t, h, d)", "# (b, t, d) -> (b, t, h, d)"),
    ],
)
def test_a_planted_lie_is_found(true, lie, tmp_path, monkeypatch):
    source = Path(inspect.getfile(MultiHeadAttention))
    copy = tmp_path / "weight_split.py"
    copy.write_text(source.read_text(encoding="utf-8").replace(true, lie, 1), encoding="utf-8")
    module = MultiHeadAttention(M, D_OUT, H, d_qk=H * D, d_v=H * D)
    steps = record(module, torch.randn(B, T, M)).steps

    class Here:
        def __init__(self, step):
            self.__dict__.update(file=str(copy) if step.file == str(source) else "", line=step.line, shape=step.shape)
            self.part, self.call = step.part, step.call

    found, _ = lies(copy, [Here(step) for step in steps], sizes())
    assert len(found) == 1
