"""Who reads whose keys: measured on the course's forms and on mistaken ones, which must look different."""

import re

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHeadAttention, SingleHeadAttention
from course_lib.inputs import dream_big
from course_lib.pictures import draw_kv_sharing
from course_lib.pictures.sharing.kv_readers import ModuleCopy
from course_lib.pictures.style import HEADS, PLAIN

from .forms import forms
from .picture_checks import TYPE, VALUE, check_drawing

X = dream_big().batch


class Relaid(MultiHeadAttention):
    """Query head h reads keys[h] of the heads of keys and values[h] of the heads of values."""

    keys, values = (0, 1, 2, 3), (0, 1, 2, 3)

    def forward(self, x, *, keep=None, return_weights=False):
        batch, num_tokens, _ = x.shape
        queries, keys, values = (
            projection(x).view(batch, num_tokens, 4, -1).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        context, weights = self.run_kernel(queries, keys[:, self.keys], values[:, self.values], None)
        output = self.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))
        return (output, weights) if return_weights else output


class WrongView(MultiHeadAttention):
    """The view without a transpose, which mixes tokens and heads."""

    def forward(self, x, *, keep=None, return_weights=False):
        batch, num_tokens, _ = x.shape
        tensors = (p(x).view(batch, 4, num_tokens, -1) for p in (self.q_proj, self.k_proj, self.v_proj))
        context, weights = self.run_kernel(*tensors, None)
        output = self.out_proj(context.reshape(batch, num_tokens, -1))
        return (output, weights) if return_weights else output


def relaid(keys=(0, 1, 2, 3), values=(0, 1, 2, 3)):
    module = Relaid(3, 8, 4)
    module.keys, module.values = list(keys), list(values)
    return module


def readers(module):
    return ModuleCopy.of("it", module).readers(X.double())


def lines(svg):
    """(x above, x below) of each line, module by module."""
    paths = re.findall(r'<path d="([^"]*)" fill="none"', svg)
    return [[(float(a), float(to or a)) for a, to in re.findall(r"M([\d.]+) 24(?:L([\d.]+) 54|V54)", d)] for d in paths]


def test_each_query_head_has_a_line_to_the_head_it_reads():
    many, grouped, one = lines(draw_kv_sharing(forms(), X).svg)
    assert many == [(x, x) for x in (23, 71, 119, 167)]
    assert grouped == [(23, 47), (71, 47), (119, 143), (167, 143)]
    assert one == [(23, 95), (71, 95), (119, 95), (167, 95)]


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(2, 1), (6, 3), (12, 4)])
def test_readers_are_the_consecutive_heads_of_a_group(num_heads, num_kv_heads):
    module = forms(num_heads, num_kv_heads, bias=True)["grouped-query"]
    per_group = num_heads // num_kv_heads
    groups = [list(range(start, start + per_group)) for start in range(0, num_heads, per_group)]
    assert readers(module) == (groups, groups)


def test_readers_follow_what_the_module_does():
    assert readers(relaid((3, 1, 1, 0), (2, 2, 0, 1))) == ([[3], [1, 2], [], [0]], [[2], [3], [0, 1], []])


def test_counts_are_those_of_the_real_tensors():
    modules = forms(d_v=12)
    picture = draw_kv_sharing(modules, X)
    for name, module in modules.items():
        parameters = module.k_proj.weight.numel() + module.v_proj.weight.numel()
        in_cache = module.k_proj.weight.shape[0] + module.v_proj.weight.shape[0]
        assert f"parameters of k_proj and v_proj: {parameters:,}<" in picture.svg
        assert f"elements in the cache for one token: {in_cache:,}<" in picture.svg
        assert f"{name} keeps {in_cache}" in picture.caption
    assert picture.caption.endswith(" elements per token.")


def test_words():
    assert draw_kv_sharing(forms(), X).description.splitlines() == [
        "multi-head: 4 query heads, 4 heads of keys and values. Each query head reads keys and values of its own. "
        "Parameters of k_proj and v_proj: 48; elements per token in a cache: 16.",
        "grouped-query: 4 query heads, 2 heads of keys and values. Query heads 0 and 1 read k0 v0 and query heads 2 "
        "and 3 read k1 v1. Parameters of k_proj and v_proj: 24; elements per token in a cache: 8.",
        "multi-query: 4 query heads, 1 head of keys and values. Query heads 0 to 3 read k0 v0. "
        "Parameters of k_proj and v_proj: 12; elements per token in a cache: 4.",
    ]


def test_query_heads_have_the_colour_of_what_they_read():
    svg = draw_kv_sharing({"grouped": forms()["grouped-query"]}, X).svg
    above = re.findall(r'<path d="M[\d.]+ 12h46" stroke="(#\w+)"', svg)
    assert above == [HEADS[0], HEADS[0], HEADS[1], HEADS[1]]


def test_an_interleaved_layout_shows():
    picture = draw_kv_sharing({"wrong": relaid((0, 1, 0, 1), (0, 1, 0, 1))}, X)
    assert lines(picture.svg) == [[(23, 23), (119, 23), (71, 71), (167, 71)]]
    assert "Query heads 0 and 2 read k0 v0 and query heads 1 and 3 read k1 v1." in picture.description
    assert "Unused, no query head reads it: k2, k3." in picture.description
    assert picture.svg.count(">unused<") == 2 and "✗ Unused" in picture.svg


def test_values_read_by_others_than_keys_show():
    picture = draw_kv_sharing({"wrong": relaid(values=(1, 0, 2, 3))}, X)
    assert "✗ The values are read by other heads than the keys" in picture.svg
    assert "The values are read by other heads than the keys." in picture.description


def test_a_wrong_view_shows():
    torch.manual_seed(0)
    picture = draw_kv_sharing({"wrong view": WrongView(3, 8, 4)}, X)
    assert len(lines(picture.svg)[0]) == 16
    assert "✗ Reading several heads of keys: query heads 0 to 3" in picture.svg
    assert re.findall(r'<path d="M[\d.]+ 12h46" stroke="(#\w+)"', picture.svg) == [PLAIN] * 4


def test_many_heads_are_drawn_in_part():
    picture = draw_kv_sharing(forms(32, 8), X)
    assert picture.svg.count("(drawn: the first 12 query heads)") == 3
    assert picture.description.count("(drawn: the first 12 query heads)") == 3
    assert [len(drawn) for drawn in lines(picture.svg)] == [12, 12, 12]
    assert ">q11<" in picture.svg and ">q12<" not in picture.svg and ">k3 v3<" in picture.svg
    assert "query heads 28 to 31 read k7 v7" in picture.description and len(picture.description) < 900
    many = draw_kv_sharing({"half": forms(40, 20)["grouped-query"]}, X)
    assert "query heads 30 and 31 read k15 v15, and so on to k19." in many.description
    swapped = relaid((0, 1, 3, 2))
    assert (
        "query head 3 reads k2 v2 and query head 2 reads k3 v3." in draw_kv_sharing({"swapped": swapped}, X).description
    )


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
@pytest.mark.parametrize("out_proj", [True, False])
def test_the_modules_stay_as_they_are(kernel, out_proj):
    modules = forms(kernel=kernel, out_proj=out_proj, dropout=0.5)
    before = {name: {key: value.clone() for key, value in m.state_dict().items()} for name, m in modules.items()}
    state = torch.get_rng_state()
    first, second = draw_kv_sharing(modules, X), draw_kv_sharing(modules, X)
    assert first.svg == second.svg and torch.equal(torch.get_rng_state(), state)
    for name, module in modules.items():
        assert module.training and module.kernel == kernel
        torch.testing.assert_close(module.state_dict(), before[name], rtol=0, atol=0)
        assert all(parameter.grad is None for parameter in module.parameters())


def test_any_precision_and_a_batch():
    x = torch.cat([X, 1 - X]).bfloat16()
    assert (
        draw_kv_sharing({name: module.bfloat16() for name, module in forms().items()}, x).svg
        == draw_kv_sharing(forms(), X).svg
    )


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(2, 1), (4, 2), (12, 3), (32, 8)])
def test_no_texts_overlap_and_nothing_is_cut(drawings, num_heads, num_kv_heads):
    wrong = {"a module with a long name that goes on and on and on": relaid((0, 1, 1, 1), (0, 1, 0, 1))}
    picture = draw_kv_sharing({**forms(num_heads, num_kv_heads), **wrong}, X)
    assert (
        len(draw_kv_sharing(forms(), X).svg) < 9_000
        and ">My title<" in draw_kv_sharing(forms(), X, title="My title").svg
    )
    drawing = drawings[0]
    assert len(picture.svg) < 12_000
    check_drawing(drawing)


class NoWeights(MultiHeadAttention):
    def forward(self, x):
        return x


GOOD = {"good": MultiHeadAttention(3, 4, 2)}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: draw_kv_sharing([GOOD["good"]], X),
            TYPE,
            "modules must be a dict of name -> attention module, got list",
        ),
        (lambda: draw_kv_sharing({}, X), VALUE, "modules is empty: give a dict"),
        (lambda: draw_kv_sharing(GOOD, None), TYPE, "x must be a floating-point tensor, got NoneType"),
        (lambda: draw_kv_sharing(GOOD, X.long()), TYPE, "x must be a floating-point tensor, got torch.int64"),
        (
            lambda: draw_kv_sharing(GOOD, X[0]),
            VALUE,
            r"x must be \(batch, token, d_in\) with two .* or more, got \(6, 3\)",
        ),
        (lambda: draw_kv_sharing(GOOD, X[:, :1]), VALUE, r"got \(1, 1, 3\)"),
        (lambda: draw_kv_sharing(GOOD, X[:0]), VALUE, r"got \(0, 6, 3\)"),
        (lambda: draw_kv_sharing(GOOD, X.to("meta")), VALUE, r"got \(1, 6, 3\) on the meta device"),
        (
            lambda: draw_kv_sharing(GOOD, X[..., :2]),
            VALUE,
            r"module 'good' takes tokens of width 3, but x is \(1, 6, 2\)",
        ),
        (
            lambda: draw_kv_sharing({"linear": nn.Linear(3, 3)}, X),
            TYPE,
            "module 'linear' has no q_proj: give an attention",
        ),
        (lambda: draw_kv_sharing({"one": SingleHeadAttention(3, 4)}, X), TYPE, "module 'one' has no num_heads"),
        (lambda: draw_kv_sharing({"mute": NoWeights(3, 4, 2)}, X), TYPE, "module 'mute' takes no return_weights"),
        (
            lambda: draw_kv_sharing(GOOD, torch.ones(1, 4, 3)),
            VALUE,
            "module 'good' gives the same weights whatever its",
        ),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
