"""Every form against the loop reference, against each other and against PyTorch, and the properties all must have."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    GroupedQueryAttention,
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    SingleHeadAttention,
    causal_keep,
    padding_keep,
    to_torch_mask,
)
from course_lib.attention.convert import to_torch

from .form_cases import (
    BATCH,
    D_IN,
    D_OUT,
    FORMS,
    HEADS,
    KERNELS,
    TOKENS,
    WITH_KERNEL,
    arrays,
    assert_same,
    build,
    build_kernel,
    draw_x,
    reference,
)

KEEPS = {
    "no mask": lambda heads: None,
    "(query, key)": lambda heads: torch.rand(TOKENS, TOKENS) < 0.7,
    "padding": lambda heads: padding_keep([TOKENS, 4]),
    "left padding": lambda heads: padding_keep([TOKENS, 4], side="left"),
    "(batch, 1, query, key)": lambda heads: torch.rand(BATCH, 1, TOKENS, TOKENS) < 0.7,
    "(1, head, 1, key)": lambda heads: torch.rand(1, heads, 1, TOKENS) < 0.7,
    "(head, query, key)": lambda heads: torch.rand(heads, TOKENS, TOKENS) < 0.7,
    "(batch, head, query, key)": lambda heads: torch.rand(BATCH, heads, TOKENS, TOKENS) < 0.7,
    "(key,)": lambda heads: torch.rand(TOKENS) < 0.7,
    "()": lambda heads: torch.tensor(False),
}

EQUAL_WIDTHS = [name for name, form in FORMS.items() if form.has_out_proj and "own widths" not in name]


# --- the numbers ---


@pytest.mark.one_in(3)
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "not causal"])
@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_equals_the_loops(name, kernel, keep, causal):
    module, x, mask = build_kernel(name, kernel, causal=causal), draw_x(), KEEPS[keep](FORMS[name].num_heads)
    expected, expected_weights = reference(module, name, x, causal=causal, keep=mask)
    if kernel == "fused":
        assert_same(module(x, keep=mask), expected)
        return
    output, weights = module(x, keep=mask, return_weights=True)
    assert_same(output, expected)
    assert_same(weights, expected_weights)
    assert torch.equal(module(x, keep=mask), output)


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_equals_the_loops_with_a_bias(name, kernel):
    module, x = build_kernel(name, kernel, bias=True), draw_x()
    assert all(each.bias is not None for each in module.modules() if isinstance(each, nn.Linear))
    assert_same(module(x), reference(module, name, x)[0])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "kernel"), [pair for pair in KERNELS if pair[0] in EQUAL_WIDTHS])
def test_equals_the_loops_without_an_output_projection(name, kernel, bias):
    module, x = build_kernel(name, kernel, bias=bias, out_proj=False), draw_x()
    assert module.out_proj is None
    assert_same(module(x), reference(module, name, x)[0])


@pytest.mark.parametrize("name", ["split, own widths", "multi-query, own widths", "grouped 3, own widths"])
def test_merged_heads_of_a_width_of_their_own_can_go_out_as_they_are(name):
    form = {"split": MultiHeadAttention, "multi-query": MultiQueryAttention}.get(name.split(",")[0])
    sizes = (D_IN, 42, HEADS) if form else (D_IN, 42, HEADS, 3)
    module = (form or GroupedQueryAttention)(*sizes, d_qk=24, d_v=42, out_proj=False).double()
    x = draw_x()
    assert_same(module(x), reference(module, name, x)[0])


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)], ids=str
)
@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_other_dtypes(name, kernel, dtype, tolerance):
    module, x = build_kernel(name, kernel, boost=1.0).to(dtype), draw_x(dtype=dtype)
    output = module(x, keep=padding_keep([TOKENS, 4], side="left"))
    expected, _ = reference(module, name, x, keep=padding_keep([TOKENS, 4], side="left"))
    assert output.dtype == dtype
    assert_same(output, expected, tolerance)


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_autocast(name, kernel):
    module, x = build_kernel(name, kernel, boost=1.0).float(), draw_x(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = module(x)
        from_half = module(x.bfloat16())
    output.sum().backward()
    assert output.dtype == from_half.dtype == torch.bfloat16
    assert_same(output, reference(module, name, x)[0], 3e-2)
    assert all(parameter.grad.dtype == torch.float32 for parameter in module.parameters())


@pytest.mark.parametrize("kernel", ["explicit", "fused"])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_pytorchs_module(kernel, bias):
    module = MultiHeadAttention(24, 24, HEADS, bias=bias, kernel=kernel).double()
    torch_module = to_torch(module)
    x = torch.randn(BATCH, TOKENS, 24, dtype=torch.float64) * 3
    masks = {"attn_mask": to_torch_mask(causal_keep(TOKENS)), "key_padding_mask": to_torch_mask(padding_keep([9, 4]))}
    output = module(x, keep=padding_keep([9, 4]))
    expected, expected_weights = torch_module(x, x, x, average_attn_weights=False, **masks)
    assert_same(output, expected)
    grad = torch.randn_like(output)
    output.backward(grad)
    expected.backward(grad)
    stacked = torch.cat([each.weight.grad for each in (module.q_proj, module.k_proj, module.v_proj)])
    assert_same(stacked, torch_module.in_proj_weight.grad)
    assert_same(module.out_proj.weight.grad, torch_module.out_proj.weight.grad)
    if kernel == "explicit":
        assert_same(module(x, keep=padding_keep([9, 4]), return_weights=True)[1], expected_weights)


@pytest.mark.parametrize("name", [name for name in WITH_KERNEL if name in EQUAL_WIDTHS])
def test_equals_scaled_dot_product_attention(name):
    module, x = build(name), draw_x()
    projected = (module.q_proj(x), module.k_proj(x), module.v_proj(x))
    queries, keys, values = (each.unflatten(-1, (-1, module.head_dim)).transpose(1, 2) for each in projected)
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
    assert_same(module(x), module.out_proj(context.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("name", WITH_KERNEL)
def test_both_kernels_have_the_same_gradients(name):
    explicit = build(name, bias=True)
    fused = build(name, bias=True, kernel="fused")
    fused.load_state_dict(explicit.state_dict())
    x = draw_x()
    keep = padding_keep([TOKENS, 4], side="left")  # with hidden rows
    grads = []
    for module in (explicit, fused):
        own_x = x.clone().requires_grad_()
        (module(own_x, keep=keep) ** 2).sum().backward()
        grads.append([own_x.grad, *(parameter.grad for parameter in module.parameters())])
    for first, second in zip(*grads, strict=True):
        assert_same(first, second)


# --- MHA, GQA and MQA are one family ---


def test_as_many_kv_heads_as_heads_is_multi_head_attention():
    grouped, split, x = build("grouped 6"), build("split"), draw_x()
    split.load_state_dict(grouped.state_dict())
    assert torch.equal(grouped(x), split(x))


def test_one_kv_head_is_multi_query_attention():
    grouped, multi_query, x = build("grouped 1"), build("multi-query"), draw_x()
    multi_query.load_state_dict(grouped.state_dict())
    assert torch.equal(grouped(x), multi_query(x))


def test_multi_query_is_multi_head_with_the_keys_and_values_of_all_heads_tied():
    split, multi_query, x = build("split", bias=True), build("multi-query", bias=True), draw_x()
    state = multi_query.state_dict()
    for name in state:
        if name[0] in "kv":
            state[name] = torch.cat([state[name]] * HEADS)
    split.load_state_dict(state)
    assert_same(split(x), multi_query(x))


def test_consecutive_heads_share_a_kv_head():
    module, x = build("grouped 2", out_proj=False), draw_x()
    before = module(x)
    with torch.no_grad():
        module.k_proj.weight[: module.head_dim] += 1.0  # the first kv head
        module.v_proj.weight[: module.head_dim] += 1.0
    moved = (module(x) - before).abs().unflatten(-1, (HEADS, -1)).amax((0, 1, 3)) > 0
    assert moved.tolist() == [True] * 3 + [False] * 3


@pytest.mark.parametrize(("num_kv_heads", "width"), [(6, 30), (3, 15), (2, 10), (1, 5)])
def test_fewer_kv_heads_make_narrower_projections(num_kv_heads, width):
    module = GroupedQueryAttention(D_IN, D_OUT, HEADS, num_kv_heads)
    assert module.k_proj.weight.shape == module.v_proj.weight.shape == (width, D_IN)
    assert module.q_proj.weight.shape == (D_OUT, D_IN)


# --- properties ---


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_no_token_sees_a_later_one(name, kernel):
    module, x = build_kernel(name, kernel), draw_x().requires_grad_()
    output = module(x)
    for token in range(TOKENS):
        (seen,) = torch.autograd.grad(output[:, token].sum(), x, retain_graph=True)
        assert (seen[:, : token + 1] != 0).any(-1).all()
        assert (seen[:, token + 1 :] == 0).all()
    changed = x.detach().clone()
    changed[:, 4:] = 9.0
    assert torch.equal(module(changed)[:, :4], output[:, :4])
    assert (module(changed)[:, 4:] != output[:, 4:]).any(-1).all()


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_without_a_causal_mask_every_token_sees_every_other(name, kernel):
    module, x = build_kernel(name, kernel, causal=False), draw_x().requires_grad_()
    for token in (0, TOKENS - 1):
        (seen,) = torch.autograd.grad(module(x)[:, token].sum(), x)
        assert (seen != 0).any(-1).all()


@pytest.mark.parametrize("name", EQUAL_WIDTHS)
def test_each_head_reads_its_own_queries_and_nobody_elses(name):
    module, x = build(name, out_proj=False), draw_x()
    before = module(x).unflatten(-1, (HEADS, -1))
    for head in range(HEADS):
        harmed = copy.deepcopy(module)
        with torch.no_grad():
            if isinstance(harmed, MultiHeadAttentionWrapper):
                harmed.heads[head].q_proj.weight += 1.0
            else:
                harmed.q_proj.weight.unflatten(0, (HEADS, -1))[head] += 1.0
        moved = (harmed(x).unflatten(-1, (HEADS, -1)) - before).abs().amax((0, 1, 3)) > 0
        assert moved.tolist() == [other == head for other in range(HEADS)]


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_samples_do_not_see_each_other(name, kernel):
    module, x = build_kernel(name, kernel), draw_x()
    output = module(x)
    changed = x.clone()
    changed[0] = 5.0
    assert torch.equal(module(changed)[1], output[1])
    assert_same(module(x[1:])[0], output[1])


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_padding_is_the_same_as_running_the_short_sequence_alone(name, kernel, causal, side):
    module, x = build_kernel(name, kernel, causal=causal), draw_x()
    real = slice(0, 4) if side == "right" else slice(TOKENS - 4, TOKENS)
    output = module(x, keep=padding_keep([TOKENS, 4], side=side))
    assert_same(output[1:, real], module(x[1:, real]))
    assert_same(output[:1], module(x[:1]))


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_queries_before_any_real_token_get_zeros_and_train_on(name, kernel):
    module, x = build_kernel(name, kernel, bias=True), draw_x().requires_grad_()
    output = module(x, keep=padding_keep([TOKENS, 4], side="left"))
    bias = module.out_proj.bias if FORMS[name].has_out_proj else 0.0
    assert_same(output[1, : TOKENS - 4], torch.zeros_like(output[1, : TOKENS - 4]) + bias)
    output.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_a_gradient_reaches_every_parameter_but_the_key_bias(name, kernel):
    module, x = build_kernel(name, kernel, bias=True), draw_x()
    (module(x) ** 2).sum().backward()
    for parameter_name, parameter in module.named_parameters():
        if parameter_name.endswith("k_proj.bias"):  # it adds the same number to all scores of a query
            assert parameter.grad.abs().max() < 1e-10
        else:
            assert (parameter.grad.abs() > 1e-8).all(), parameter_name


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_dropout_in_training_only(name, kernel):
    module, x = build_kernel(name, kernel, dropout=0.5), draw_x()
    assert_same(module(x), reference(module, name, x)[0])
    assert torch.equal(module(x), module(x))
    module.train()
    assert not torch.equal(module(x), module(x))
    if kernel == "explicit":
        _, weights = module(x, return_weights=True)
        visible = weights[..., causal_keep(TOKENS)]
        assert 0.2 < (visible == 0).double().mean() < 0.8


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_training_without_dropout_draws_nothing(name, kernel):
    module, x = build_kernel(name, kernel).train(), draw_x()
    state = torch.get_rng_state()
    assert torch.equal(module(x), module.eval()(x))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "kernel"), KERNELS)
@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (3, 1), (0, 5), (2, 0), (1, 40)])
def test_any_batch_and_any_length(name, kernel, batch, tokens):
    module, x = build_kernel(name, kernel), draw_x(batch=batch, tokens=tokens)
    output = module(x)
    assert_same(output, reference(module, name, x)[0])
    output.sum().backward()


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_x_need_not_be_contiguous(name, kernel):
    module, x = build_kernel(name, kernel), draw_x()
    for twin in (x.transpose(0, 1).contiguous().transpose(0, 1), x.transpose(1, 2).contiguous().transpose(1, 2)):
        assert not twin.is_contiguous()
        assert_same(module(twin), module(x))


# --- manners ---


def snapshot(module):
    return {name: dict(vars(each)) for name, each in module.named_modules()}


@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_forward_stores_nothing_prints_nothing_and_changes_no_global(name, kernel, capsys):
    module, x, keep = build_kernel(name, kernel), draw_x(), torch.rand(TOKENS, TOKENS) < 0.7
    before, old_x, old_keep = snapshot(module), x.clone(), keep.clone()
    state, grad_mode, dtype = torch.get_rng_state(), torch.is_grad_enabled(), torch.get_default_dtype()
    options, threads = copy.copy(vars(torch._tensor_str.PRINT_OPTS)), torch.get_num_threads()
    module(x, keep=keep)
    after = snapshot(module)
    assert before.keys() == after.keys()
    for path in before:
        assert before[path].keys() == after[path].keys()
        assert all(before[path][key] is after[path][key] for key in before[path])
    assert torch.equal(x, old_x)
    assert torch.equal(keep, old_keep)
    assert torch.equal(state, torch.get_rng_state())
    assert (grad_mode, dtype, threads) == (torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads())
    assert options == vars(torch._tensor_str.PRINT_OPTS)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", FORMS)
def test_the_state_holds_projections_and_nothing_else(name):
    module = build(name, bias=True)
    assert list(module.buffers()) == []
    assert all(key.split(".")[-2] in ("q_proj", "k_proj", "v_proj", "out_proj") for key in module.state_dict())
    assert all(isinstance(each, nn.Linear) for path, each in module.named_modules() if path.endswith("_proj"))
    assert set(arrays(module)) == {
        f"{each}.{kind}"
        for each in ("q_proj", "k_proj", "v_proj", "out_proj")[: 4 if FORMS[name].has_out_proj else 3]
        for kind in ("weight", "bias")
    }


@pytest.mark.parametrize("name", FORMS)
def test_a_copy_a_pickle_and_a_loaded_state_give_the_same_output(name):
    module, x = build(name, dropout=0.1, causal=False), draw_x()
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    loaded = build(name, dropout=0.1, causal=False)
    assert not torch.equal(loaded(x), module(x))
    loaded.load_state_dict(torch.load(file))
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), loaded):
        assert twin is not module
        assert torch.equal(twin(x), module(x))


def test_weights_have_the_layout_batch_head_query_key():
    for name, form in FORMS.items():
        output, weights = build(name)(draw_x(), return_weights=True)
        assert weights.shape == (BATCH, form.num_heads, TOKENS, TOKENS)
        assert output.shape == (BATCH, TOKENS, 13 if name == "single head" else D_OUT)
        assert_same(weights.sum(-1), torch.ones(BATCH, form.num_heads, TOKENS))


def test_d_out_is_the_width_over_all_heads_in_every_form():
    assert MultiHeadAttentionWrapper(D_IN, D_OUT, HEADS, out_proj=False)(draw_x().float()).shape[-1] == D_OUT
    wrapper = MultiHeadAttentionWrapper(D_IN, D_OUT, HEADS)
    assert [head.q_proj.out_features for head in wrapper.heads] == [D_OUT // HEADS] * HEADS
    assert all(isinstance(head, SingleHeadAttention) for head in wrapper.heads)


def test_what_a_form_prints_of_itself_names_its_options():
    text = repr(MultiHeadAttention(3, 4, 2, causal=False, dropout=0.25))
    assert "causal=False, dropout=0.25" in text
    assert "q_proj" in text


def test_one_sample_and_one_head_take_a_mask_of_three_axes():
    module, x = build("single head"), draw_x(batch=1)
    keep = torch.rand(1, TOKENS, TOKENS) < 0.7
    assert_same(module(x, keep=keep), reference(module, "single head", x, keep=keep)[0])


def test_the_mask_of_forward_is_joined_with_the_causal_one():
    module, x = build("split"), draw_x()
    everything = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    assert torch.equal(module(x, keep=everything), module(x))
    upper = module(x, keep=everything.triu(), return_weights=True)[1]
    assert_same(upper, torch.eye(TOKENS).expand(BATCH, HEADS, -1, -1))
