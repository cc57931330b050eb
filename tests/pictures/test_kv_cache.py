"""What a cache keeps: bytes recomputed from shapes, columns by token, a cache that would change something refused."""

import re

import pytest
import torch

from course_lib.attention import MultiHeadAttention, MultiQueryAttention
from course_lib.inputs import dream_big
from course_lib.pictures import draw_kv_cache

from .forms import forms
from .picture_checks import TYPE, VALUE, check_drawing

WORDS, _, X = dream_big()


def test_words_and_caption():
    picture = draw_kv_cache(forms(), X, words=WORDS)
    assert picture.description.splitlines() == [
        "While “it” is computed, the keys and values of the 5 tokens before it are kept, those of “it” are new. "
        "Its queries are asked once, then forgotten.",
        "multi-head keeps 4 heads of keys and values: 32 bytes per token, 192 bytes for 6 tokens.",
        "grouped-query keeps 2 heads of keys and values: 16 bytes per token, 96 bytes for 6 tokens, 1/2 of multi-head.",
        "multi-query keeps 1 head of keys and values: 8 bytes per token, 48 bytes for 6 tokens, 1/4 of multi-head.",
    ]
    said = "The output of “it” from the kept keys and values equals its output from all tokens at once"
    assert picture.caption == f"{said}: checked in float64."


@pytest.mark.parametrize("bytes_per_element", [1, 2, 4])
def test_bytes_are_those_of_real_tensors(bytes_per_element):
    dtype = {1: torch.uint8, 2: torch.float16, 4: torch.float32}[bytes_per_element]
    modules = forms(6, 3, d_qk=12, d_v=30, out_proj=True)
    picture = draw_kv_cache(modules, torch.cat([X, X]), bytes_per_element=bytes_per_element)
    for module in modules.values():
        kept = [projection(X[0]).to(dtype).untyped_storage().nbytes() for projection in (module.k_proj, module.v_proj)]
        assert f"{sum(kept) // 6:,} bytes per token, {sum(kept):,} bytes for 6 tokens" in picture.svg


def test_a_row_a_head_and_a_column_a_token():
    svg = draw_kv_cache(forms(), X, words=WORDS).svg
    rows = re.findall(r">((?:keys|values) \d)<", svg)
    assert rows == [f"{role} {head}" for heads in (4, 2, 1) for role in ("keys", "values") for head in range(heads)]
    assert [svg.count(f">{word}<") for word in WORDS] == [3] * 6
    assert svg.count(">kept<") == svg.count(">new<") == svg.count(">asked once, then forgotten<") == 3
    assert svg.count(">4 queries of the new token:<") == 3


def test_the_new_token_is_outlined():
    svg = draw_kv_cache({"shared": forms()["multi-query"]}, X, words=WORDS).svg
    left, width = map(float, re.search(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"[^>]*"#A40E26"', svg).groups())
    last = float(re.search(r'<text x="([\d.]+)"[^>]*>it<', svg)[1])
    assert left + width / 2 == pytest.approx(last)
    first = float(re.search(r'<text x="([\d.]+)"[^>]*>Dream<', svg)[1])
    kept = re.search(r'<path d="M([\d.]+) [\d.]+H([\d.]+)M', svg).groups()  # the bracket below the others
    assert float(kept[0]) < first < float(kept[1]) < left


def test_shares_are_fractions_of_the_first():
    assert (
        ", as much as a"
        in draw_kv_cache({"a": MultiQueryAttention(3, 4, 2), "b": MultiQueryAttention(3, 4, 2)}, X).description
    )
    two = {"a": MultiHeadAttention(3, 4, 2, d_qk=4, d_v=70), "b": MultiHeadAttention(3, 4, 2)}
    assert ", 0.108 of a." in draw_kv_cache(two, X).description
    assert (
        ", 3 of a."
        in draw_kv_cache({"a": MultiQueryAttention(3, 6, 3), "b": MultiHeadAttention(3, 6, 3)}, X).description
    )


def test_many_heads_and_tokens_are_drawn_in_part():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, 20, 3, generator=generator)
    picture = draw_kv_cache(forms(12, 3), x, words=[f"w{i}" for i in range(20)])
    whole = "(drawn: the first 8 heads and the first 9 tokens and the last)"
    assert whole in picture.svg and whole in picture.description
    assert picture.description.count("(drawn: the first 9 tokens and the last)") == 2
    assert ">w8<" in picture.svg and ">w9<" not in picture.svg and picture.svg.count(">w19<") == 3
    assert picture.svg.count(">…<") == 3
    assert ">keys 7<" in picture.svg and ">keys 8<" not in picture.svg


class Decayed(MultiHeadAttention):
    """Does something with the scores that attend() doesn't."""

    def forward(self, x, *, keep=None, return_weights=False):
        output, weights = super().forward(x, keep=keep, return_weights=True)
        return (0.9 * output, weights) if return_weights else 0.9 * output


def test_a_cache_that_would_change_the_output_is_refused():
    with pytest.raises(ValueError, match=r"module 'decayed' gives its last token another output than attend\(\) makes"):
        draw_kv_cache({"decayed": Decayed(3, 4, 2)}, X)


@pytest.mark.parametrize("options", [{"causal": False}, {"out_proj": False}, {"bias": True, "kernel": "fused"}])
def test_every_form_and_nothing_is_changed(options):
    modules = forms(dropout=0.5, **options)
    state = torch.get_rng_state()
    first, second = draw_kv_cache(modules, X), draw_kv_cache(modules, X)
    assert first.svg == second.svg and torch.equal(torch.get_rng_state(), state)
    assert all(module.training and module.q_proj.weight.dtype == torch.float32 for module in modules.values())
    half = {name: module.bfloat16() for name, module in modules.items()}
    assert draw_kv_cache(half, X.bfloat16()).svg == first.svg


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(2, 1), (4, 2), (12, 3), (32, 8)])
@pytest.mark.parametrize("words", [WORDS, ("antidisestablishment",) * 30])
def test_no_texts_overlap_and_nothing_is_cut(drawings, num_heads, num_kv_heads, words):
    x = torch.randn(1, len(words), 3, generator=torch.Generator().manual_seed(0))
    long = {"a module with a long name that goes on and on": MultiQueryAttention(3, 4, 2)}
    picture = draw_kv_cache({**forms(num_heads, num_kv_heads), **long}, x, words=words, title="My title")
    assert len(draw_kv_cache(forms(), X, words=WORDS).svg) < 9_000 and ">My title<" in picture.svg
    drawing = drawings[0]
    assert len(picture.svg) < 16_000
    check_drawing(drawing)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: draw_kv_cache({}, X), VALUE, "modules is empty"),
        (lambda: draw_kv_cache(forms(), X[:, :1]), VALUE, "two tokens or more"),
        (lambda: draw_kv_cache(forms(), X, words=("a",)), VALUE, "words has 1 labels for 6 tokens"),
        (lambda: draw_kv_cache(forms(), X, bytes_per_element=0), VALUE, "bytes_per_element must be at least 1, got 0"),
        (
            lambda: draw_kv_cache(forms(), X, bytes_per_element=2.0),
            TYPE,
            "bytes_per_element must be an integer, got 2.0",
        ),
        (lambda: draw_kv_cache(forms(), X, bytes_per_element=True), TYPE, "must be an integer, got True"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
