"""attend and attend_fused against plain loops and against PyTorch's own, forward and backward."""

import pytest
import torch
import torch.nn.functional as F
from form_cases import assert_same
from loop_reference import loop_attention, to_array
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.attention import attend, attend_fused, causal_keep
from course_lib.attention.core import CPU_KERNEL_SHARES

BATCH, HEADS, QUERIES, KEYS, HEAD_DIM, VALUE_DIM = 2, 6, 5, 7, 11, 13
FUNCTIONS = {"attend": lambda *args: attend(*args)[0], "attend_fused": attend_fused}
KV_HEADS = [6, 3, 2, 1]
MASK_SHAPES = [
    (),
    (KEYS,),
    (1, 1),
    (QUERIES, KEYS),
    (QUERIES, 1),
    (1, KEYS),
    (1, QUERIES, KEYS),
    (HEADS, QUERIES, KEYS),
    (HEADS, 1, KEYS),
    (HEADS, QUERIES, 1),
    (BATCH, 1, 1, KEYS),
    (BATCH, 1, QUERIES, KEYS),
    (1, HEADS, 1, KEYS),
    (1, 1, QUERIES, KEYS),
    (BATCH, HEADS, QUERIES, KEYS),
    (BATCH, HEADS, QUERIES, 1),
    (1, 1, 1, 1),
]


def draw(
    kv_heads=HEADS,
    *,
    batch=BATCH,
    heads=HEADS,
    queries=QUERIES,
    keys=KEYS,
    head_dim=HEAD_DIM,
    value_dim=VALUE_DIM,
    dtype=torch.float64,
    boost=2.0,
):
    """Queries, keys and values; boost scales queries and keys up, so that weights are neither flat nor one-hot."""
    shapes = ((batch, heads, queries, head_dim), (batch, kv_heads, keys, head_dim), (batch, kv_heads, keys, value_dim))
    return [
        (torch.randn(shape, dtype=torch.float64) * scale).to(dtype).requires_grad_()
        for shape, scale in zip(shapes, (boost, boost, 1.0), strict=True)
    ]


def random_mask(shape, share=0.6):
    """A bool mask of a shape, about share of it True, its first entries along the queries hidden where it has a row."""
    mask = torch.rand(shape) < share
    if mask.dim() >= 2 and mask.shape[-2] > 1:
        mask[..., 0, :] = False
    return mask


def gradients(context, grad_context, inputs):
    return torch.autograd.grad(context, inputs, grad_context)


def check_against_loops(function, inputs, keep, tolerance, grad_tolerance=None):
    context = function(*inputs, keep)
    grad_context = torch.randn(context.shape, dtype=torch.float64).to(context.dtype)
    mask = None if keep is None else to_array(keep)
    expected, _, expected_grads = loop_attention(*map(to_array, inputs), mask, to_array(grad_context))
    assert context.dtype == inputs[0].dtype
    assert_same(context, torch.from_numpy(expected), tolerance)
    for grad, expected_grad in zip(gradients(context, grad_context, inputs), expected_grads, strict=True):
        assert_same(grad, torch.from_numpy(expected_grad), grad_tolerance or tolerance)


# --- the numbers ---


@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_the_loops_forward_and_backward(name, kv_heads):
    check_against_loops(FUNCTIONS[name], draw(kv_heads), None, 1e-12)


@pytest.mark.parametrize("boost", [3.0, 6.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_the_loops_where_attention_is_sharp(name, boost):
    check_against_loops(FUNCTIONS[name], draw(2, boost=boost), causal_keep(QUERIES, KEYS), 1e-11)


@pytest.mark.parametrize("shape", MASK_SHAPES, ids=str)
@pytest.mark.parametrize("kv_heads", [6, 2, 1])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_mask_of_every_legal_shape(name, kv_heads, shape):
    check_against_loops(FUNCTIONS[name], draw(kv_heads), random_mask(shape), 1e-12)


@pytest.mark.parametrize("keep_all", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_mask_without_axes_keeps_or_hides_everything(name, keep_all):
    check_against_loops(FUNCTIONS[name], draw(3), torch.tensor(keep_all), 1e-12)


@pytest.mark.parametrize("shape", [(KEYS,), (HEADS, 1, KEYS), (BATCH, 1, 1, KEYS), (BATCH, HEADS, 1, KEYS)], ids=str)
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_query_with_a_mask(name, kv_heads, shape):
    check_against_loops(FUNCTIONS[name], draw(kv_heads, queries=1), random_mask(shape), 1e-12)


@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("equal_widths", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_pytorch_forward_and_backward(name, equal_widths, kv_heads):
    inputs = draw(kv_heads, value_dim=HEAD_DIM if equal_widths else VALUE_DIM)
    keep = random_mask((BATCH, HEADS, QUERIES, KEYS))
    context = FUNCTIONS[name](*inputs, keep)
    grad_context = torch.randn_like(context)
    grads = gradients(context, grad_context, inputs)
    fast = equal_widths and (kv_heads == HEADS or CPU_KERNEL_SHARES)  # the fast kernel takes no other case
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION) if fast else (SDPBackend.MATH,):
        with sdpa_kernel(backend):
            expected = F.scaled_dot_product_attention(*inputs, keep, enable_gqa=kv_heads != HEADS)
            expected_grads = gradients(expected, grad_context, inputs)
        assert_same(context, expected)
        for grad, expected_grad in zip(grads, expected_grads, strict=True):
            assert_same(grad, expected_grad)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_float32(name, kv_heads, masked):
    inputs = draw(kv_heads, dtype=torch.float32, boost=1.0)
    keep = random_mask((BATCH, 1, QUERIES, KEYS)) if masked else None
    check_against_loops(FUNCTIONS[name], inputs, keep, 1e-6, 3e-6)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_half_precision(name, dtype, tolerance, kv_heads, masked):
    inputs = draw(kv_heads, dtype=dtype, boost=1.0)
    keep = random_mask((BATCH, 1, QUERIES, KEYS)) if masked else None
    check_against_loops(FUNCTIONS[name], inputs, keep, tolerance, 2 * tolerance)


@pytest.mark.parametrize("kv_heads", KV_HEADS)
def test_weights_equal_the_loops(kv_heads):
    inputs, keep = draw(kv_heads), random_mask((BATCH, HEADS, QUERIES, KEYS))
    _, weights = attend(*inputs, keep)
    _, expected = loop_attention(*map(to_array, inputs), to_array(keep))
    assert_same(weights, torch.from_numpy(expected))
    assert weights.shape == (BATCH, HEADS, QUERIES, KEYS)
    assert (weights.masked_select(~keep) == 0).all()
    assert_same(weights.sum(-1), keep.any(-1).double())


def test_gradients_of_the_weights_are_right():
    inputs = draw(1, batch=1, heads=2, queries=2, keys=3, head_dim=2, value_dim=1, boost=1.0)
    keep = torch.tensor([[True, False, True], [False, False, False]])
    assert torch.autograd.gradcheck(lambda *tensors: attend(*tensors, keep), inputs)
    assert torch.autograd.gradcheck(lambda *tensors: attend_fused(*tensors, keep), inputs)
    assert torch.autograd.gradgradcheck(lambda *tensors: attend(*tensors, keep), inputs)


# --- edges ---


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "sizes",
    [
        {"heads": 1, "kv_heads": 1},
        {"queries": 1},
        {"queries": 1, "kv_heads": 2},
        {"queries": 1, "keys": 1},
        {"queries": 9, "kv_heads": 3},
        {"batch": 1, "kv_heads": 1},
        {"head_dim": 1, "value_dim": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("masked", [True, False])
def test_sizes_of_one_and_lengths_that_differ(name, sizes, masked):
    inputs = draw(**({"kv_heads": HEADS} | sizes))
    keep = causal_keep(inputs[0].shape[2], inputs[1].shape[2]) if masked else None
    check_against_loops(FUNCTIONS[name], inputs, keep, 1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("sizes", [{"batch": 0}, {"queries": 0}, {"keys": 0}, {"queries": 1, "keys": 0}], ids=str)
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("masked", [True, False])
def test_nothing_in_zeros_out(name, sizes, kv_heads, masked):
    inputs = draw(kv_heads, **sizes)
    full = (inputs[0].shape[0], HEADS, inputs[0].shape[2], inputs[1].shape[2])
    context = FUNCTIONS[name](*inputs, torch.ones(full, dtype=torch.bool) if masked else None)
    assert context.shape == (*full[:3], VALUE_DIM)
    assert (context == 0).all()
    context.sum().backward()
    assert all((tensor.grad == 0).all() for tensor in inputs)


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kv_heads", [6, 2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_row_that_sees_nothing_gives_zeros_and_finite_gradients(name, kv_heads, dtype):
    inputs = draw(kv_heads, dtype=dtype)
    keep = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    keep[2] = False
    with torch.autograd.set_detect_anomaly(True):
        context = FUNCTIONS[name](*inputs, keep)
        grads = gradients(context.sum(), None, inputs)
    assert (context[:, :, 2] == 0).all()
    assert (context[:, :, [0, 1, 3, 4]] != 0).any(-1).all()
    assert all(grad.isfinite().all() for grad in grads)
    assert (grads[0][:, :, 2] == 0).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_weights_of_a_hidden_row_are_zero_and_all_hidden_trains(name):
    inputs = draw(2)
    keep = torch.zeros(1, 1, dtype=torch.bool)
    context = FUNCTIONS[name](*inputs, keep)
    assert (context == 0).all()
    assert (attend(*inputs, keep)[1] == 0).all()
    assert all((grad == 0).all() for grad in gradients(context.sum(), None, inputs))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_stands_in_the_scores_of_a_hidden_key_does_not_matter(bad):
    queries, keys, values = (tensor.detach() for tensor in draw(2))
    keep = torch.ones(KEYS, dtype=torch.bool)
    keep[3] = False
    expected = attend(queries, keys, values, keep)
    keys[:, :, 3] = bad
    for actual, clean in zip(attend(queries, keys, values, keep), expected, strict=True):
        assert torch.equal(actual, clean)


def test_float16_does_not_overflow_where_scaling_after_the_product_does():
    queries = torch.full((1, 1, 1, 64), 60.0, dtype=torch.float16)
    keys = queries.expand(1, 1, 4, 64)
    assert (queries @ keys.transpose(2, 3)).isinf().all()
    context, weights = attend(queries, keys, keys)
    assert torch.equal(weights, torch.full((1, 1, 1, 4), 0.25, dtype=torch.float16))
    assert (context == 60).all()
    if CPU_KERNEL_SHARES:  # PyTorch 2.6's own kernel gives nan here
        assert (attend_fused(queries, keys, keys) == 60).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_that_are_not_contiguous(name):
    inputs = [tensor.detach().transpose(1, 2).contiguous().transpose(1, 2) for tensor in draw(2)]
    assert not any(tensor.is_contiguous() for tensor in inputs)
    keep = random_mask((KEYS, QUERIES)).T
    expected, _ = loop_attention(*map(to_array, inputs), to_array(keep))
    assert_same(FUNCTIONS[name](*inputs, keep), torch.from_numpy(expected))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_inputs_stay_as_they_are_and_the_result_is_deterministic(name):
    inputs, keep = [tensor.detach() for tensor in draw(2)], random_mask((QUERIES, KEYS))
    before = [tensor.clone() for tensor in (*inputs, keep)]
    state = torch.get_rng_state()
    first, second = FUNCTIONS[name](*inputs, keep), FUNCTIONS[name](*inputs, keep)
    assert torch.equal(first, second)
    assert all(torch.equal(old, new) for old, new in zip(before, (*inputs, keep), strict=True))
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_autocast(name):
    inputs = [tensor.detach() for tensor in draw(2, dtype=torch.float32, boost=1.0)]
    expected, _ = loop_attention(*map(to_array, inputs))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        context = FUNCTIONS[name](*inputs, None)
        mixed = FUNCTIONS[name](inputs[0].bfloat16(), *inputs[1:], None)
    assert context.dtype == mixed.dtype == torch.bfloat16
    assert_same(context, torch.from_numpy(expected), 5e-2)
    assert_same(mixed, torch.from_numpy(expected), 5e-2)


# --- keys and values that heads share are not copied ---

LONG, WIDE = 300, 16


class CopiesOfKeys(TorchDispatchMode):
    """Collects every operation whose result holds keys or values more than once."""

    def __init__(self, keys, values):
        super().__init__()
        self.limit = max(keys.nbytes, values.nbytes)
        widths = (keys.shape[-1], values.shape[-1])
        self.shapes = {(LONG, width) for width in widths} | {(width, LONG) for width in widths}
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            is_tensor = isinstance(tensor, torch.Tensor)
            if is_tensor and tensor.shape[-2:] in self.shapes and tensor.untyped_storage().nbytes() > self.limit:
                self.found.append(f"{func} -> {tuple(tensor.shape)}")
        return result


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("queries", [1, 5], ids=["decode", "prefill"])
@pytest.mark.parametrize("kv_heads", [1, 2, 3])
@pytest.mark.parametrize("value_dim", [WIDE, 24])
@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
@pytest.mark.parametrize("mask_shape", [None, (1, LONG), (HEADS, 1, LONG)], ids=str)
def test_shared_keys_and_values_are_never_copied_for_each_head(
    name, queries, kv_heads, value_dim, dropout_p, mask_shape
):
    inputs = draw(kv_heads, queries=queries, keys=LONG, head_dim=WIDE, value_dim=value_dim, dtype=torch.float32)
    inputs = [tensor.detach() for tensor in inputs]
    with CopiesOfKeys(*inputs[1:]) as copies:
        FUNCTIONS[name](*inputs, None if mask_shape is None else random_mask(mask_shape), dropout_p)
    assert copies.found == []


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kv_heads", [1, 2])
def test_keys_laid_out_as_a_module_makes_them_are_not_copied_for_each_head_either(name, kv_heads):
    inputs = draw(kv_heads, keys=LONG, queries=5, head_dim=WIDE, value_dim=WIDE, dtype=torch.float32)
    inputs = [tensor.detach().transpose(1, 2).contiguous().transpose(1, 2) for tensor in inputs]
    with CopiesOfKeys(*inputs[1:]) as copies:
        FUNCTIONS[name](*inputs)
    assert copies.found == []


@pytest.mark.parametrize(("queries", "folded"), [(1, True), (QUERIES, not CPU_KERNEL_SHARES)])
def test_a_decoding_step_is_folded_and_a_longer_one_goes_to_the_fast_kernel(queries, folded, monkeypatch):
    calls = []

    def spy(queries, keys, values, *args, enable_gqa=False):
        calls.append((tuple(queries.shape), enable_gqa))
        return original(queries, keys, values, *args, enable_gqa=enable_gqa)

    original = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    attend_fused(*draw(2, queries=queries, value_dim=HEAD_DIM))
    as_they_are, in_groups = (BATCH, HEADS, queries, HEAD_DIM), (BATCH, 2, 3 * queries, HEAD_DIM)
    assert calls == [(in_groups, False) if folded else (as_they_are, True)]


def test_the_search_for_copies_finds_the_usual_ones():
    queries, keys, values = (tensor.detach() for tensor in draw(1, keys=LONG, head_dim=WIDE, value_dim=24))
    with CopiesOfKeys(keys, values) as copies:
        queries @ keys.transpose(2, 3)  # broadcast by matmul
    assert copies.found
    with CopiesOfKeys(keys, values) as copies:
        F.scaled_dot_product_attention(queries, keys, values, enable_gqa=True)  # widths that differ
    assert copies.found


# --- dropout ---


@pytest.mark.parametrize("kv_heads", KV_HEADS)
def test_the_weights_returned_are_those_that_were_applied(kv_heads):
    queries, keys, values = draw(kv_heads)
    context, weights = attend(queries, keys, values, causal_keep(QUERIES, KEYS), 0.5)
    assert_same(context, weights @ values.repeat_interleave(HEADS // kv_heads, dim=1))
    assert (weights == 0).any()


def test_dropout_drops_the_share_it_is_told_and_scales_the_rest():
    queries, keys, values = draw(batch=3, queries=40, keys=50)
    _, kept = attend(queries, keys, values)
    for dropout_p in (0.1, 0.5, 0.9):
        _, weights = attend(queries, keys, values, None, dropout_p)
        dropped = weights == 0
        assert dropped.double().mean().item() == pytest.approx(dropout_p, abs=0.01)
        assert_same(weights[~dropped], (kept / (1 - dropout_p))[~dropped])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("queries", [1, QUERIES])
@pytest.mark.parametrize("kv_heads", [6, 2, 1])
def test_the_mean_over_many_passes_is_the_result_without_dropout(name, queries, kv_heads):
    inputs = draw(kv_heads, queries=queries, boost=1.0, dtype=torch.float32)
    keep = random_mask((BATCH, HEADS, queries, KEYS))
    with torch.no_grad():
        expected = FUNCTIONS[name](*inputs, keep)
        passes = torch.stack([FUNCTIONS[name](*inputs, keep, 0.3) for _ in range(300)])
    assert not torch.equal(passes[0], passes[1])
    error = (passes.mean(0) - expected).abs() / (passes.std(0) / 300**0.5 + 1e-6)
    assert error.max() < 5.5  # standard errors


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dropout_draws_only_when_asked_and_follows_the_seed(name):
    inputs = draw(2)
    torch.manual_seed(5)
    first = FUNCTIONS[name](*inputs, None, 0.4)
    torch.manual_seed(5)
    assert torch.equal(first, FUNCTIONS[name](*inputs, None, 0.4))
    assert not torch.equal(first, FUNCTIONS[name](*inputs, None, 0.4))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_flow_through_dropout_and_hidden_rows(name):
    inputs = draw(2)
    keep = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    keep[1] = False
    context = FUNCTIONS[name](*inputs, keep, 0.5)
    assert (context[:, :, 1] == 0).all()
    assert all(grad.isfinite().all() for grad in gradients(context.sum(), None, inputs))
