"""The family picture and the cache picture: what they say was measured on the modules, and changes with them."""

import pytest
import torch
from picture_checks import check_picture, texts_of
from torch import nn

from course_lib.attention import GroupedQueryAttention, MultiHeadAttention, MultiQueryAttention
from course_lib.pictures import cache, family

X = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0))
WORDS = ("Dream", "big", "and", "work", "hard")


def modules(**options):
    torch.manual_seed(1)
    return {
        "multi-head": MultiHeadAttention(3, 8, 4, **options),
        "grouped-query": GroupedQueryAttention(3, 8, 4, num_kv_heads=2, **options),
        "multi-query": MultiQueryAttention(3, 8, 4, **options),
    }


def test_the_family_is_drawn_with_its_counts():
    picture = family(modules(), X)
    check_picture(picture)
    shown = texts_of(picture.svg)
    assert [shown.count(f"k{i} v{i}") for i in range(4)] == [3, 2, 1, 1]
    assert shown.count("q3") == 3
    counts = [f"numbers in the cache for one token: {n}" for n in (16, 8, 4)]  # 2 * kv heads * 2 wide
    assert [text for text in shown if text.startswith("numbers in the cache")] == counts
    parameters = [f"parameters of k_proj and v_proj: {n}" for n in (48, 24, 12)]
    assert [text for text in shown if text.startswith("parameters")] == parameters
    assert "each query head reads keys and values of its own" in picture.words
    assert "key head 1 is read by query heads 2, 3" in picture.words


def test_the_lines_are_measured_not_believed():
    class Tiled(GroupedQueryAttention):  # kv heads laid out 0, 1, 0, 1: a published mistake
        def run_kernel(self, queries, keys, values, keep):
            return super().run_kernel(queries, keys.repeat(1, 2, 1, 1), values.repeat(1, 2, 1, 1), keep)

    class ZeroOnly(GroupedQueryAttention):  # every head reads the first one
        def run_kernel(self, queries, keys, values, keep):
            return super().run_kernel(queries, keys[:, :1], values[:, :1], keep)

    tiled, zero_only = (kind(3, 8, 4, num_kv_heads=2) for kind in (Tiled, ZeroOnly))
    words = family({"tiled": tiled, "zero": zero_only}, X).words
    assert "tiled: query heads 4, key and value heads 2; key head 0 is read by query heads 0, 2" in words
    assert "key head 1 is read by nobody" in words
    assert "✗ unused: k1" in texts_of(family({"zero": zero_only}, X).svg)


def test_asking_leaves_the_modules_as_they_were():
    patients = modules(dropout=0.5, kernel="fused")
    before = {name: [p.clone() for p in one.parameters()] for name, one in patients.items()}
    state = torch.get_rng_state()
    assert family(patients, X).svg == family(patients, X).svg
    assert cache(patients, X).svg == cache(patients, X).svg
    assert torch.equal(torch.get_rng_state(), state)
    for name, one in patients.items():
        assert one.training and one.kernel == "fused"
        assert all(torch.equal(a, b) for a, b in zip(before[name], one.parameters(), strict=True))


def test_many_heads_are_drawn_in_part():
    many = {"wide": MultiHeadAttention(3, 64, 32)}
    picture = family(many, X)
    check_picture(picture)
    assert "32 query heads, 32 of keys and values, the first 12 drawn" in texts_of(picture.svg)
    picture = cache(many, torch.randn(1, 20, 3))
    check_picture(picture)
    assert any("drawn: 8 of 32 heads, 12 of 20 tokens" in text for text in texts_of(picture.svg))


def test_the_cache_holds_the_bytes_of_real_keys_and_values():
    picture = cache(modules(bias=True), X, WORDS, bytes_per_number=4)
    check_picture(picture)
    shown = texts_of(picture.svg)
    for text in ("64 bytes a token, 320 for 5 tokens", "0.5 of multi-head", "0.25 of multi-head"):
        assert any(text in one for one in shown)
    assert shown.count("keys 3") == 1 and shown.count("values 1") == 2 and shown.count("new") == 3
    assert "checked in 64 bits" in picture.caption
    check_picture(cache({"no out_proj": MultiQueryAttention(3, 8, 4, out_proj=False)}, X))


def test_a_module_for_which_a_cache_is_wrong_is_refused():
    class Leaking(MultiHeadAttention):  # the last query sees its own token only: nothing was worth keeping
        def run_kernel(self, queries, keys, values, keep):
            return super().run_kernel(queries, keys, values, torch.eye(keys.shape[2], dtype=torch.bool))

    with pytest.raises(ValueError, match="module 'leaking' gives another output with a cache"):
        cache({"leaking": Leaking(3, 8, 4)}, X)


@pytest.mark.parametrize(
    ("given", "x", "kind", "words"),
    [
        ({}, X, ValueError, "modules is empty"),
        ({"linear": nn.Linear(3, 3)}, X, TypeError, "module 'linear' has no q_proj"),
        (modules(), X[:, :1], ValueError, r"two tokens or more, got \(2, 1, 3\)"),
        (modules(), [1], ValueError, "two tokens or more, got list"),
        (modules(), X.to("meta"), ValueError, "x must be"),
    ],
)
@pytest.mark.parametrize("draw", [family, cache])
def test_what_can_not_be_asked_is_refused(draw, given, x, kind, words):
    with pytest.raises(kind, match=words):
        draw(given, x)


def test_words_must_fit():
    with pytest.raises(ValueError, match="words has 1 labels for 5 tokens"):
        cache(modules(), X, ["only"])
