"""Weights carried from one form to another: the same numbers, own storage, nothing else changed."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    LlamaAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
    causal_keep,
    padding_keep,
    to_torch_mask,
)
from course_lib.attention.convert import (
    from_torch,
    multi_head_to_grouped_query,
    multi_head_to_multi_query,
    multi_query_to_multi_head,
    split_to_wrapper,
    to_torch,
    wrapper_to_split,
)

from .form_cases import BATCH, D_IN, D_OUT, HEADS, TOKENS, assert_same, build, draw_x

SQUARE = 24  # PyTorch's module has one width


def square(**options):
    return MultiHeadAttention(SQUARE, SQUARE, HEADS, **options).double()


def torch_module(**options):
    module = nn.MultiheadAttention(SQUARE, HEADS, **({"batch_first": True} | options)).double()
    if module.in_proj_bias is not None:
        nn.init.normal_(module.in_proj_bias)  # PyTorch starts it at zero, where it could not be missed
        nn.init.normal_(module.out_proj.bias)
    return module


CONVERSIONS = {
    "wrapper_to_split": (lambda **o: build("wrapper", **o), wrapper_to_split),
    "split_to_wrapper": (lambda **o: build("split", **o), split_to_wrapper),
    "to_torch": (square, to_torch),
    "from_torch": (torch_module, from_torch),
    "multi_head_to_grouped_query": (
        lambda **o: build("split, own widths", **o),
        lambda m: multi_head_to_grouped_query(m, 2),
    ),
    "multi_head_to_multi_query": (lambda **o: build("split, own widths", **o), multi_head_to_multi_query),
    "multi_head_to_grouped_query, of a grouped one": (
        lambda **o: build("grouped 6", **o),
        lambda m: multi_head_to_grouped_query(m, 3),
    ),
    "multi_head_to_multi_query, of a grouped one": (
        lambda **o: build("grouped 3, own widths", **o),
        multi_head_to_multi_query,
    ),
    "multi_query_to_multi_head": (lambda **o: build("multi-query, own widths", **o), multi_query_to_multi_head),
    "grouped query to multi-head": (lambda **o: build("grouped 3, own widths", **o), multi_query_to_multi_head),
}
EXACT = {
    name: pair for name, pair in CONVERSIONS.items() if "torch" not in name and not name.startswith("multi_head_to")
}


# --- the same output ---


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"causal": False}, {"bias": True, "causal": False}], ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_the_output_stays_the_same(name, options):
    make, convert = EXACT[name]
    module, x, keep = make(**options), draw_x(), padding_keep([TOKENS, 4], side="left")
    converted = convert(module)
    assert type(converted) is not type(module)
    output, weights = module(x, keep=keep, return_weights=True)
    converted_output, converted_weights = converted(x, keep=keep, return_weights=True)
    assert_same(converted_output, output)
    assert_same(converted_weights, weights)


@pytest.mark.parametrize("name", ["wrapper_to_split", "split_to_wrapper"])
@pytest.mark.parametrize("bias", [True, False])
def test_without_an_output_projection(name, bias):
    make, convert = EXACT[name]
    module, x = make(out_proj=False, bias=bias), draw_x()
    converted = convert(module)
    assert converted.out_proj is None
    assert_same(converted(x), module(x))


@pytest.mark.parametrize("name", ["multi-query", "grouped 2", "grouped 1", "grouped 6"])
def test_shared_heads_without_an_output_projection(name):
    module, x = build(name, out_proj=False, bias=True), draw_x()
    assert_same(multi_query_to_multi_head(module)(x), module(x))


@pytest.mark.parametrize("out_proj", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_to_torch(bias, out_proj):
    module = square(bias=bias, out_proj=out_proj)
    converted = to_torch(module)
    assert isinstance(converted, nn.MultiheadAttention)
    assert (converted.in_proj_bias is not None) == bias
    x = torch.randn(BATCH, TOKENS, SQUARE, dtype=torch.float64) * 3
    expected, expected_weights = module(x, return_weights=True)
    mask = to_torch_mask(causal_keep(TOKENS))
    output, weights = converted(x, x, x, attn_mask=mask, average_attn_weights=False)
    assert_same(output, expected)
    assert_same(weights, expected_weights)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_from_torch(bias, batch_first, causal):
    module = torch_module(bias=bias, batch_first=batch_first)
    converted = from_torch(module, causal=causal)
    x = torch.randn(BATCH, TOKENS, SQUARE, dtype=torch.float64) * 3
    turned = x if batch_first else x.transpose(0, 1)
    expected, _ = module(turned, turned, turned, attn_mask=to_torch_mask(causal_keep(TOKENS)) if causal else None)
    assert_same(converted(x), expected if batch_first else expected.transpose(0, 1))
    assert converted.causal == causal


@pytest.mark.parametrize("bias", [True, False])
def test_there_and_back_again_is_bit_for_bit(bias):
    wrapper, split, own = build("wrapper", bias=bias), square(bias=bias), torch_module(bias=bias)
    round_trips = [
        (wrapper, split_to_wrapper(wrapper_to_split(wrapper))),
        (split, from_torch(to_torch(split))),
        (own, to_torch(from_torch(own))),
        (split, wrapper_to_split(split_to_wrapper(split))),
    ]
    for before, after in round_trips:
        assert before.state_dict().keys() == after.state_dict().keys()
        assert all(torch.equal(tensor, after.state_dict()[name]) for name, tensor in before.state_dict().items())


# --- pooling ---


@pytest.mark.parametrize("num_kv_heads", [1, 2, 3, 6])
def test_pooled_keys_and_values_are_the_mean_of_their_group(num_kv_heads):
    split = build("split, own widths", bias=True)
    grouped = multi_head_to_grouped_query(split, num_kv_heads)
    assert isinstance(grouped, GroupedQueryAttention)
    group = HEADS // num_kv_heads
    for name, width in (("k_proj", 4), ("v_proj", 7)):
        old, new = getattr(split, name), getattr(grouped, name)
        for kv_head in range(num_kv_heads):
            heads = range(kv_head * group, (kv_head + 1) * group)
            rows = slice(kv_head * width, (kv_head + 1) * width)
            for old_tensor, new_tensor in ((old.weight, new.weight), (old.bias, new.bias)):
                mean = sum(old_tensor[head * width : (head + 1) * width] for head in heads) / group
                assert_same(new_tensor[rows], mean)
    for name in ("q_proj", "out_proj"):
        assert torch.equal(getattr(split, name).weight, getattr(grouped, name).weight)
        assert torch.equal(getattr(split, name).bias, getattr(grouped, name).bias)


def test_pooling_into_one_head_is_multi_query():
    split, x = build("split, own widths", bias=True), draw_x()
    multi_query = multi_head_to_multi_query(split)
    assert isinstance(multi_query, MultiQueryAttention)
    assert_same(multi_query(x), multi_head_to_grouped_query(split, 1)(x))
    assert (multi_query(x) - split(x)).abs().max() > 0.01


def test_pooling_into_as_many_heads_changes_nothing():
    split, x = build("split"), draw_x()
    assert torch.equal(multi_head_to_grouped_query(split, HEADS)(x), split(x))


STEPS = [(6, 3, 1), (6, 2, 1), (3, 1), (2, 1), (6, 6, 3), (2, 2)]


@pytest.mark.parametrize("steps", STEPS, ids=str)
def test_in_steps_it_gives_the_same_weights_as_at_once(steps):
    split, x = build("split, own widths", bias=True), draw_x()
    stepwise = split
    for num_kv_heads in steps:
        stepwise = multi_head_to_grouped_query(stepwise, num_kv_heads)
        assert (type(stepwise), stepwise.num_kv_heads) == (GroupedQueryAttention, num_kv_heads)
    at_once = multi_head_to_grouped_query(split, steps[-1])
    for name, tensor in at_once.state_dict().items():
        assert_same(stepwise.state_dict()[name], tensor, 1e-15)
    assert_same(stepwise(x), at_once(x))
    if steps[-1] == 1:
        one_more = multi_head_to_multi_query(multi_head_to_grouped_query(split, steps[0]))
        assert isinstance(one_more, MultiQueryAttention)
        assert_same(one_more(x), multi_head_to_multi_query(split)(x))


@pytest.mark.slow
def test_the_fewer_kv_heads_remain_the_larger_the_error():
    """Measured on 20 random modules: of heads drawn at random, the mean of g keeps 1 / g of what each one was."""
    errors = {num_kv_heads: [] for num_kv_heads in (6, 3, 2, 1)}
    for _ in range(20):
        split, x = build("split, own widths"), draw_x()
        output = split(x)
        for num_kv_heads in errors:
            pooled = multi_head_to_grouped_query(split, num_kv_heads)(x)
            errors[num_kv_heads].append(((pooled - output).norm() / output.norm()).item())
    means = [sum(each) / len(each) for each in errors.values()]
    assert means[0] == 0.0
    assert all(later > earlier + 0.01 for earlier, later in pairwise(means))
    assert means[1] > 0.3


@pytest.mark.parametrize("name", ["multi-query", "grouped 2", "grouped 3, own widths"])
def test_heads_that_were_equal_pool_without_loss(name):
    module, x = build(name, bias=True), draw_x()
    split = multi_query_to_multi_head(module)
    back = multi_head_to_grouped_query(split, getattr(module, "num_kv_heads", 1))
    assert_same(back(x), module(x))


# --- what is kept and what is not touched ---


@pytest.mark.parametrize("name", CONVERSIONS)
def test_dtype_mode_and_frozenness_are_kept(name):
    make, convert = CONVERSIONS[name]
    for dtype in (torch.float64, torch.bfloat16):
        for training in (True, False):
            for frozen in ("nothing", "one weight", "everything"):
                module = make().to(dtype).train(training).requires_grad_(frozen != "everything")
                next(module.parameters()).requires_grad_(frozen == "nothing")
                converted = convert(module)
                assert {parameter.dtype for parameter in converted.parameters()} == {dtype}
                assert {parameter.requires_grad for parameter in converted.parameters()} == {frozen != "everything"}
                assert {each.training for each in converted.modules()} == {training}
                assert {parameter.device.type for parameter in converted.parameters()} == {"cpu"}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_options_are_kept(name):
    make, convert = CONVERSIONS[name]
    converted = convert(make(dropout=0.25, bias=True))
    part = converted.heads[0] if isinstance(converted, MultiHeadAttentionWrapper) else converted
    assert part.dropout == 0.25
    assert any("bias" in parameter for parameter, _ in converted.named_parameters())


@pytest.mark.parametrize("name", [name for name in CONVERSIONS if "multi_head" in name or "grouped" in name])
def test_the_kernel_is_kept(name):
    make, convert = CONVERSIONS[name]
    assert convert(make(kernel="fused")).kernel == "fused"
    assert convert(make()).kernel == "explicit"


@pytest.mark.parametrize("name", CONVERSIONS)
def test_storage_is_its_own(name):
    make, convert = CONVERSIONS[name]
    module = make(bias=True)
    converted = convert(module)
    storages = [each.untyped_storage().data_ptr() for each in (*module.parameters(), *converted.parameters())]
    assert len(set(storages)) == len(storages)
    kept = [parameter.clone() for parameter in module.parameters()]
    with torch.no_grad():
        for parameter in converted.parameters():
            parameter.fill_(7.0)
    assert all(torch.equal(old, new) for old, new in zip(kept, module.parameters(), strict=True))
    assert all(parameter.is_leaf and parameter.grad_fn is None for parameter in converted.parameters())


@pytest.mark.parametrize("name", CONVERSIONS)
def test_no_random_number_is_drawn(name):
    make, convert = CONVERSIONS[name]
    module, state = make(), torch.get_rng_state()
    convert(module)
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", CONVERSIONS)
def test_the_result_trains(name):
    make, convert = CONVERSIONS[name]
    converted = convert(make())
    x = draw_x() if converted_d_in(converted) == D_IN else torch.randn(BATCH, TOKENS, SQUARE, dtype=torch.float64)
    output = converted(x, x, x)[0] if isinstance(converted, nn.MultiheadAttention) else converted(x)
    output.square().sum().backward()
    assert all(parameter.grad is not None for parameter in converted.parameters())


def converted_d_in(module):
    if isinstance(module, nn.MultiheadAttention):
        return module.embed_dim
    return (module.heads[0] if isinstance(module, MultiHeadAttentionWrapper) else module).q_proj.in_features


def test_meta_weights_are_carried_over_on_meta():
    module = MultiHeadAttention(D_IN, D_OUT, HEADS).to("meta")
    assert {parameter.device.type for parameter in split_to_wrapper(module).parameters()} == {"meta"}


# --- what is refused ---

WRONG_FORMS = [
    (wrapper_to_split, "MultiHeadAttentionWrapper", lambda: build("split")),
    (split_to_wrapper, "MultiHeadAttention", lambda: build("wrapper")),
    (to_torch, "MultiHeadAttention", lambda: build("multi-query")),
    (from_torch, "MultiheadAttention", lambda: build("split")),
    (
        lambda m: multi_head_to_grouped_query(m, 2),
        "MultiHeadAttention or GroupedQueryAttention",
        lambda: build("multi-query"),
    ),
    (multi_head_to_multi_query, "MultiHeadAttention or GroupedQueryAttention", lambda: SingleHeadAttention(3, 2)),
    (multi_head_to_multi_query, "MultiHeadAttention or GroupedQueryAttention", lambda: LlamaAttention(4, 2)),
    (multi_query_to_multi_head, "MultiQueryAttention or GroupedQueryAttention", lambda: build("split")),
]


@pytest.mark.parametrize(("convert", "wanted", "make"), WRONG_FORMS, ids=range(len(WRONG_FORMS)))
def test_another_form_is_refused_by_name(convert, wanted, make):
    module = make()
    with pytest.raises(TypeError) as caught:
        convert(module)
    assert str(caught.value) == f"this conversion takes a {wanted}, got {type(module).__name__}."


ONE_WIDTH = (
    " has one width for queries, values and output, got d_qk=24, d_v=42 and d_out=30: build the module without d_qk "
    "and d_v."
)
REFUSED = {
    "wrapper of other widths": (lambda: split_to_wrapper(build("split, own widths")), "a wrapper" + ONE_WIDTH),
    "torch of other widths": (
        lambda: to_torch(build("split, own widths")),
        "torch.nn.MultiheadAttention" + ONE_WIDTH,
    ),
    "torch with d_in other than d_out": (
        lambda: to_torch(build("split")),
        "torch.nn.MultiheadAttention has one width for everything, got d_in=11 and d_out=30: build the module with "
        "d_in equal to d_out.",
    ),
    "kdim": (
        lambda: from_torch(nn.MultiheadAttention(8, 2, kdim=5, vdim=6)),
        "the module has kdim=5, vdim=6 and embed_dim=8: only self-attention with a single width can be converted.",
    ),
    "add_bias_kv": (
        lambda: from_torch(nn.MultiheadAttention(8, 2, add_bias_kv=True)),
        "the module was built with add_bias_kv=True and add_zero_attn=False: build it with both set to "
        "False, because the course's form supports neither.",
    ),
    "add_zero_attn": (
        lambda: from_torch(nn.MultiheadAttention(8, 2, add_zero_attn=True)),
        "the module was built with add_bias_kv=False and add_zero_attn=True: build it with both set to "
        "False, because the course's form supports neither.",
    ),
    "groups that do not divide": (
        lambda: multi_head_to_grouped_query(build("split"), 4),
        "the module's 6 kv heads can't be pooled into num_kv_heads=4 groups of equal size: choose a num_kv_heads that "
        "divides 6.",
    ),
    "more groups than there are": (
        lambda: multi_head_to_grouped_query(build("grouped 2"), 6),
        "the module's 2 kv heads can't be pooled into num_kv_heads=6 groups of equal size: choose a num_kv_heads that "
        "divides 2.",
    ),
    "no group": (
        lambda: multi_head_to_grouped_query(build("split"), 0),
        "num_kv_heads must be at least 1, got 0.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_carried_over_is_refused_in_a_sentence(name):
    convert, sentence = REFUSED[name]
    with pytest.raises(ValueError) as caught:
        convert()
    assert str(caught.value) == sentence
