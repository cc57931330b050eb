"""Cross-attention: queries from x, keys and values from a context of another length."""

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHeadAttention, padding_keep, to_torch_mask
from course_lib.attention.convert import to_torch

from .form_cases import BATCH, D_IN, D_OUT, FAMILY, FORMS, HEADS, assert_same, build, build_kernel, draw_x, reference

QUERIES, KEYS = 5, 8
LENGTHS = [(QUERIES, KEYS), (KEYS, QUERIES), (1, KEYS), (QUERIES, 1), (QUERIES, QUERIES)]
KEEPS = {
    "no mask": lambda: None,
    "padding of the context": lambda: padding_keep([KEYS, 3]),
    "left padding of the context": lambda: padding_keep([KEYS, 3], side="left"),
    "a sample without context": lambda: padding_keep([KEYS, 0]),
    "(query, key)": lambda: torch.rand(QUERIES, KEYS) < 0.7,
    "(batch, 1, query, key)": lambda: torch.rand(BATCH, 1, QUERIES, KEYS) < 0.7,
    "(1, head, 1, key)": lambda: torch.rand(1, HEADS, 1, KEYS) < 0.7,
    "(batch, head, query, key)": lambda: torch.rand(BATCH, HEADS, QUERIES, KEYS) < 0.7,
}


def draw(queries=QUERIES, keys=KEYS, *, batch=BATCH):
    return draw_x(batch=batch, tokens=queries), draw_x(batch=batch, tokens=keys)


def cross(name, kernel, **options):
    return build_kernel(name, kernel, causal=False, **options)


@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_equals_the_loops(name, kernel, queries, keys):
    module, (x, context) = cross(name, kernel, bias=True), draw(queries, keys)
    expected, expected_weights = reference(module, name, x, causal=False, context=context)
    assert_same(module(x, context=context), expected)
    if kernel == "explicit":
        output, weights = module(x, context=context, return_weights=True)
        assert torch.equal(output, module(x, context=context))
        assert_same(weights, expected_weights)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_equals_the_loops_with_a_mask(name, kernel, keep):
    module, (x, context), mask = cross(name, kernel), draw(), KEEPS[keep]()
    expected, _ = reference(module, name, x, causal=False, keep=mask, context=context)
    assert_same(module(x, keep=mask, context=context), expected)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_equals_pytorchs_module(kernel, padded):
    module = MultiHeadAttention(24, 24, HEADS, causal=False, bias=True, kernel=kernel).double()
    x, context = (torch.randn(BATCH, length, 24, dtype=torch.float64) * 3 for length in (QUERIES, KEYS))
    keep = padding_keep([KEYS, 3]) if padded else None
    mask = to_torch_mask(keep) if padded else None
    expected, weights = to_torch(module)(x, context, context, key_padding_mask=mask, average_attn_weights=False)
    assert_same(module(x, keep=keep, context=context), expected)
    if kernel == "explicit":
        assert_same(module(x, keep=keep, context=context, return_weights=True)[1], weights)
    everywhere = to_torch(module)(x, x, x)[0]
    assert (module(x, context=context) - everywhere).abs().max() > 1e-3  # the context is not passed over


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_a_context_that_is_x_gives_self_attention(name, kernel):
    module, x = cross(name, kernel), draw_x()
    assert torch.equal(module(x, context=x), module(x))


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_padding_of_the_context_is_the_same_as_a_shorter_context(name, kernel):
    module, (x, context) = cross(name, kernel), draw()
    output = module(x, keep=padding_keep([KEYS, 3]), context=context)
    assert_same(output[1:], module(x[1:], context=context[1:, :3]))
    context[1, 3:] = 100.0
    assert torch.equal(module(x, keep=padding_keep([KEYS, 3]), context=context), output)


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_each_query_sees_all_of_its_own_sample_s_context_and_nothing_else(name, kernel):
    module, (x, context) = cross(name, kernel), draw()
    x.requires_grad_()
    context.requires_grad_()
    seen_x, seen_context = torch.autograd.grad(module(x, context=context)[1, 2].sum(), (x, context))
    assert (seen_context[1] != 0).any(-1).all()
    assert (seen_context[0] == 0).all()
    assert [(row != 0).any().item() for row in seen_x[1]] == [token == 2 for token in range(QUERIES)]


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_the_order_of_the_context_does_not_matter_and_that_of_x_only_moves_rows(name, kernel):
    module, (x, context) = cross(name, kernel), draw()
    output = module(x, context=context)
    assert_same(module(x, context=context.flip(1)), output)
    assert_same(module(x.flip(1), context=context), output.flip(1))


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_a_gradient_reaches_every_parameter(name, kernel):
    module, (x, context) = cross(name, kernel), draw()
    module(x, keep=padding_keep([KEYS, 0]), context=context).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
    assert all((parameter.grad.abs() > 0).all() for parameter in module.parameters())


@pytest.mark.parametrize(("queries", "keys"), [(0, KEYS), (QUERIES, 0), (0, 0), (1, 0)])
@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_nothing_in_zeros_out(name, kernel, queries, keys):
    module, (x, context) = cross(name, kernel), draw(queries, keys)
    output = module(x, context=context)
    assert output.shape == (BATCH, queries, D_OUT)
    if keys == 0:
        assert (output == 0).all()


@pytest.mark.parametrize(("name", "kernel"), FAMILY)
def test_under_autocast_x_and_context_may_differ_in_dtype(name, kernel):
    module, (x, context) = cross(name, kernel, boost=1.0).float(), draw()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = module(x.float(), context=context.bfloat16())
    assert output.dtype == torch.bfloat16
    assert_same(output, reference(module, name, x, causal=False, context=context)[0], 3e-2)


@pytest.mark.parametrize("name", [name for name, kernel in FAMILY if kernel == "explicit"])
def test_x_and_context_stay_as_they_are(name):
    module, (x, context) = build(name, causal=False), draw()
    before = x.clone(), context.clone()
    module(x, context=context)
    assert torch.equal(x, before[0])
    assert torch.equal(context, before[1])


def test_keys_made_from_x_would_be_noticed():
    """A planted mistake: the keys come from x, the values from the context."""
    module, (x, context) = build("split", causal=False), draw(QUERIES, QUERIES)
    expected, _ = reference(module, "split", x, causal=False, context=context)
    assert_same(module(x, context=context), expected)
    handles = [module.k_proj.register_forward_hook(lambda layer, args, output: nn.functional.linear(x, layer.weight))]
    assert (module(x, context=context) - expected).abs().max() > 1e-2
    handles[0].remove()


def test_every_form_of_the_family_is_here():
    assert {FORMS[name].num_kv_heads for name, _ in FAMILY} == {1, 2, 3, HEADS}
    assert draw()[1].shape == (BATCH, KEYS, D_IN)
