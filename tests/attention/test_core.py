"""attend and attend_fused against plain loops and against PyTorch's own, forward and backward."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.attention import KVCache, attend, attend_fused, causal_keep
from course_lib.attention.core import CPU_KERNEL_HAS_GQA, _kernel_shares

from .form_cases import assert_same
from .loop_reference import loop_attention, to_array

BATCH, HEADS, QUERIES, KEYS, HEAD_DIM, VALUE_DIM = 2, 6, 5, 7, 11, 13
FUNCTIONS = {"attend": lambda *args, **options: attend(*args, **options)[0], "attend_fused": attend_fused}
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


@pytest.mark.one_in(2)
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
    fast = equal_widths and (kv_heads == HEADS or CPU_KERNEL_HAS_GQA)  # the fast kernel takes no other case
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


# --- causal ---

LENGTHS = [(QUERIES, KEYS), (KEYS, QUERIES), (QUERIES, QUERIES), (1, KEYS), (2, KEYS), (KEYS, 1), (1, 1)]
CAUSAL_MASKS = {
    "no mask": lambda queries, keys: None,
    "padding": lambda queries, keys: torch.arange(keys) < torch.tensor([keys, 3])[:, None, None, None],
    "(query, key)": lambda queries, keys: torch.rand(queries, keys) < 0.6,
    "(head, 1, key)": lambda queries, keys: torch.rand(HEADS, 1, keys) < 0.6,
    "(batch, head, query, key)": lambda queries, keys: torch.rand(BATCH, HEADS, queries, keys) < 0.6,
    "()": lambda queries, keys: torch.tensor(True),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("mask", CAUSAL_MASKS)
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize(("queries", "keys"), LENGTHS)
@pytest.mark.parametrize("equal_widths", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_causal_is_the_causal_mask_at_the_bottom_right(name, equal_widths, queries, keys, kv_heads, mask):
    inputs = draw(kv_heads, queries=queries, keys=keys, value_dim=HEAD_DIM if equal_widths else VALUE_DIM)
    keep = CAUSAL_MASKS[mask](queries, keys)
    both = causal_keep(queries, keys) if keep is None else causal_keep(queries, keys) & keep
    context = FUNCTIONS[name](*inputs, keep, causal=True)
    expected, _ = loop_attention(*map(to_array, inputs), to_array(both))
    assert_same(context, torch.from_numpy(expected))
    grad_context = torch.randn_like(context)
    expected_grads = gradients(attend(*inputs, both)[0], grad_context, inputs)
    for grad, expected_grad in zip(gradients(context, grad_context, inputs), expected_grads, strict=True):
        assert_same(grad, expected_grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("queries", "keys"), [(QUERIES, QUERIES), (KEYS, QUERIES)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_causal_hides_exactly_in_every_dtype(name, queries, keys, dtype):
    inputs = draw(2, queries=queries, keys=keys, dtype=dtype, boost=1.0)
    tolerance = {torch.float32: 1e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    expected, _ = loop_attention(*map(to_array, inputs), to_array(causal_keep(queries, keys)))
    assert_same(FUNCTIONS[name](*inputs, causal=True), torch.from_numpy(expected), tolerance)
    changed = [tensor.detach().clone() for tensor in inputs]
    changed[1][:, :, -1], changed[2][:, :, -1] = 3.0, 7.0
    assert torch.equal(
        FUNCTIONS[name](*changed, causal=True)[:, :, :-1], FUNCTIONS[name](*inputs, causal=True)[:, :, :-1]
    )
    if name == "attend":
        assert (attend(*inputs, causal=True)[1][..., ~causal_keep(queries, keys)] == 0).all()


def test_a_score_that_overflows_does_not_uncover_later_tokens():
    """In float16 the first token's only score is -inf: lower than any finite number that could hide the others."""
    queries = torch.full((1, 1, 3, 4), 300.0, dtype=torch.float16)
    keys = torch.full((1, 1, 3, 4), -300.0, dtype=torch.float16)
    keys[:, :, 1:] = 1.0
    assert ((queries * 0.5) @ keys.mT)[0, 0, 0, 0] == -torch.inf
    _, weights = attend(queries, keys, keys, causal=True)
    assert not (weights[0, 0, 0, 1:] > 0).any()
    assert not (attend(queries, keys, keys, causal_keep(3))[1][0, 0, 0, 1:] > 0).any()


@pytest.mark.parametrize("kv_heads", KV_HEADS)
def test_causal_with_dropout(kv_heads):
    inputs = draw(kv_heads, queries=QUERIES, keys=QUERIES, boost=1.0, dtype=torch.float32)
    with torch.no_grad():
        expected = attend(*inputs, causal_keep(QUERIES))[0]
        passes = torch.stack([attend_fused(*inputs, None, 0.3, causal=True) for _ in range(300)])
    error = (passes.mean(0) - expected).abs() / (passes.std(0) / 300**0.5 + 1e-6)
    assert error.max() < 5.5  # standard errors
    assert not torch.equal(passes[0], passes[1])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_causal_row_that_sees_nothing_trains_on(name):
    inputs = draw(2, queries=KEYS, keys=QUERIES)
    with torch.autograd.set_detect_anomaly(True):
        context = FUNCTIONS[name](*inputs, causal=True)
        grads = gradients(context.sum(), None, inputs)
    assert (context[:, :, : KEYS - QUERIES] == 0).all()
    assert all(grad.isfinite().all() for grad in grads)


@pytest.fixture
def sdpa_calls(monkeypatch):
    """What goes to PyTorch's kernel: (queries' shape, mask's shape or None, is_causal, enable_gqa)."""
    calls = []

    def spy(queries, keys, values, mask=None, dropout_p=0.0, is_causal=False, *, enable_gqa=False):
        calls.append((tuple(queries.shape), None if mask is None else tuple(mask.shape), is_causal, enable_gqa))
        return original(queries, keys, values, mask, dropout_p, is_causal, enable_gqa=enable_gqa)

    original = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return calls


def never(*args, **options):
    raise AssertionError("a causal mask was made")


@pytest.mark.parametrize("kv_heads", [HEADS] + [2, 1] * CPU_KERNEL_HAS_GQA)
def test_where_pytorchs_kernel_hides_later_tokens_no_mask_is_made(kv_heads, sdpa_calls, monkeypatch):
    monkeypatch.setattr("course_lib.attention.core.causal_keep", never)
    attend_fused(*draw(kv_heads, queries=QUERIES, keys=QUERIES, value_dim=HEAD_DIM), causal=True)
    assert sdpa_calls == [((BATCH, HEADS, QUERIES, HEAD_DIM), None, True, kv_heads != HEADS)]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kv_heads", KV_HEADS)
def test_one_query_is_the_last_token_and_needs_no_mask(name, kv_heads, sdpa_calls, monkeypatch):
    monkeypatch.setattr("course_lib.attention.core.causal_keep", never)
    inputs = draw(kv_heads, queries=1)
    assert_same(FUNCTIONS[name](*inputs, causal=True), attend(*inputs)[0])
    folded = (BATCH, kv_heads, HEADS // kv_heads, HEAD_DIM)
    assert sdpa_calls == ([(folded, None, False, False)] if name == "attend_fused" else [])


@pytest.mark.parametrize(
    ("sizes", "mask"),
    [
        ({"queries": QUERIES, "keys": KEYS}, None),
        ({"queries": QUERIES, "keys": QUERIES}, torch.ones(1, dtype=torch.bool)),
    ],
    ids=["behind a cache", "with a mask of the caller"],
)
def test_elsewhere_one_mask_goes_along_and_is_causal_stays_false(sizes, mask, sdpa_calls):
    attend_fused(*draw(HEADS, **sizes, value_dim=HEAD_DIM), mask, causal=True)
    ((_, mask_shape, is_causal, _),) = sdpa_calls
    assert mask_shape == (1, 1, sizes["queries"], sizes["keys"])
    assert is_causal is False


@pytest.mark.parametrize(("queries", "keys"), [(QUERIES, QUERIES), (QUERIES, KEYS), (KEYS, QUERIES)])
@pytest.mark.parametrize("mask", CAUSAL_MASKS)
@pytest.mark.parametrize("kv_heads", [3, 1])
def test_where_pytorchs_kernel_would_copy_heads_are_folded_causal_or_not(
    kv_heads, mask, queries, keys, sdpa_calls, monkeypatch
):
    monkeypatch.setattr("course_lib.attention.core._kernel_shares", lambda *args: False)
    inputs, keep = draw(kv_heads, queries=queries, keys=keys, value_dim=HEAD_DIM), CAUSAL_MASKS[mask](queries, keys)
    both = causal_keep(queries, keys) if keep is None else causal_keep(queries, keys) & keep
    assert_same(attend_fused(*inputs, keep, causal=True), attend(*inputs, both)[0])
    folded = (BATCH, kv_heads, HEADS // kv_heads * queries, HEAD_DIM)
    assert [(call[0], call[2:]) for call in sdpa_calls] == [(folded, (False, False))]


def test_pytorchs_own_causal_mask_sits_in_the_other_corner():
    """Why a mask is made behind a cache: the planted mistake is seen."""
    queries, keys, values = draw(HEADS)
    top_left = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    assert (top_left - attend_fused(queries, keys, values, causal=True)).abs().max() > 1e-2
    assert_same(top_left, attend(queries, keys, values, torch.ones(QUERIES, KEYS).tril().bool())[0])


# --- which kernel reads shared heads where they are ---


def pretended(device, *, width=64, value_width=64, dtype=torch.bfloat16):
    """Stand-ins for queries, keys and values: all that is asked of them."""
    device = torch.device(device)
    queries = SimpleNamespace(device=device, dtype=dtype, shape=(2, 8, 5, width))
    return queries, SimpleNamespace(name="keys"), SimpleNamespace(shape=(2, 2, 5, value_width))


@pytest.mark.parametrize("shares", [True, False])
def test_on_the_cpu_it_needs_pytorch_2_9_equal_widths_and_no_dropout(shares, monkeypatch):
    monkeypatch.setattr("course_lib.attention.core.CPU_KERNEL_HAS_GQA", shares)
    assert _kernel_shares(*pretended("cpu"), None, 0.0, True) is shares
    assert _kernel_shares(*pretended("cpu", value_width=32), None, 0.0, True) is False
    assert _kernel_shares(*pretended("cpu"), None, 0.1, True) is False


@pytest.mark.parametrize("answer", [True, False])
def test_on_cuda_pytorch_is_asked_whether_its_flash_kernel_can_run(answer, monkeypatch):
    asked = []
    monkeypatch.setattr(torch.backends.cuda, "SDPAParams", lambda *arguments: arguments)
    monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", lambda given: asked.append(given) or answer)
    queries, keys, values = pretended("cuda:1")
    assert _kernel_shares(queries, keys, values, "keep", 0.25, False) is answer
    assert asked == [(queries, keys, values, "keep", 0.25, False, True)]  # the last: heads are shared


@pytest.mark.parametrize("is_causal", [True, False])
def test_pytorch_takes_the_question_in_these_words(is_causal):
    queries, keys, values = draw(2)
    keep = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    question = torch.backends.cuda.SDPAParams(queries, keys, values, keep, 0.25, is_causal, True)
    assert question.query is queries
    assert question.key is keys
    assert question.value is values
    assert question.attn_mask is keep
    assert (question.dropout, question.is_causal, question.enable_gqa) == (0.25, is_causal, True)
    assert torch.backends.cuda.can_use_flash_attention(question) is False  # tensors on the CPU
    assert torch.backends.cuda.SDPAParams(queries, keys, values, None, 0.0, is_causal, True).attn_mask is None


@pytest.mark.parametrize(
    ("options", "keep", "expected"),
    [
        ({}, None, True),
        ({"dtype": torch.float16}, None, True),
        ({"dtype": torch.float32}, None, False),
        ({"value_width": 32}, None, False),
        ({}, "keep", False),
    ],
)
def test_on_cuda_and_while_compiling_it_can_not_be_asked(options, keep, expected, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(torch.backends.cuda, "SDPAParams", never)
    assert _kernel_shares(*pretended("cuda", **options), keep, 0.0, True) is expected


@pytest.mark.parametrize("device", ["meta", "mps"])
def test_on_other_devices_nothing_is_taken_for_granted(device):
    assert _kernel_shares(*pretended(device), None, 0.0, True) is False


# --- softmax in a dtype of its own ---


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kv_heads", KV_HEADS)
def test_softmax_in_float32_rounds_to_float32(kv_heads, masked):
    inputs, keep = draw(kv_heads), random_mask((BATCH, 1, QUERIES, KEYS)) if masked else None
    context, weights = attend(*inputs, keep, softmax_dtype=torch.float32)
    expected_context, expected = attend(*inputs, keep)
    assert weights.dtype == context.dtype == torch.float64
    assert torch.equal(weights, weights.float().double())
    assert not torch.equal(weights, expected)
    assert_same(weights, expected, 1e-6)
    assert_same(context, expected_context, 1e-6)
    assert_same(context, weights @ inputs[2].repeat_interleave(HEADS // kv_heads, dim=1))  # these were applied


@pytest.mark.parametrize("softmax_dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_hidden_row_stays_finite_in_both_dtypes(dtype, softmax_dtype):
    inputs = draw(2, dtype=dtype)
    keep = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    keep[2] = False
    with torch.autograd.set_detect_anomaly(True):
        context, weights = attend(*inputs, keep, softmax_dtype=softmax_dtype)
        grads = gradients(context.sum(), None, inputs)
    assert weights.dtype == context.dtype == dtype
    assert (weights[:, :, 2] == 0).all()
    assert all(grad.isfinite().all() for grad in grads)


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
    if CPU_KERNEL_HAS_GQA:  # PyTorch 2.6's own kernel gives nan here
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


@pytest.mark.one_in(4)
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


@pytest.mark.parametrize(("queries", "folded"), [(1, True), (QUERIES, not CPU_KERNEL_HAS_GQA)])
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


class CopiesOfCached(TorchDispatchMode):
    """Collects every operation that gives keys or values, or as many numbers, in memory that is not the cache's."""

    def __init__(self, cache):
        super().__init__()
        self.own = {each.untyped_storage().data_ptr() for each in (cache.keys, cache.values)}
        self.size = min(cache.keys.numel(), cache.values.numel())
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(tensor, torch.Tensor) or tensor.untyped_storage().data_ptr() in self.own:
                continue
            if tensor.untyped_storage().nbytes() >= self.size * tensor.element_size():
                self.found.append(f"{func} -> {tuple(tensor.shape)}")
        return result


def cached_keys_and_values(kv_heads, dtype=torch.float32):
    """A cache that is nearly full, so that its views are neither contiguous nor all of its memory."""
    cache = KVCache(BATCH, kv_heads, LONG + 9, 64, dtype=dtype)
    cache.append(*torch.randn(2, BATCH, kv_heads, LONG, 64).to(dtype))
    return cache


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("kv_heads", KV_HEADS)
@pytest.mark.parametrize("queries", [1, 2, 5], ids=["decode", "two tokens", "a chunk"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_in_a_cache_is_not_copied_even_once(name, queries, kv_heads, masked, dtype):
    cache = cached_keys_and_values(kv_heads, dtype)
    inputs = torch.randn(BATCH, HEADS, queries, 64).to(dtype)
    keep = torch.rand(BATCH, 1, 1, LONG) < 0.6 if masked else None
    with CopiesOfCached(cache) as copies:
        FUNCTIONS[name](inputs, cache.keys, cache.values, keep, causal=True)
    assert copies.found == []


def test_the_search_for_copies_of_a_cache_finds_one():
    cache = cached_keys_and_values(2)
    assert not cache.keys.is_contiguous()
    for copy in (lambda: cache.keys.contiguous(), lambda: cache.keys.repeat_interleave(3, dim=1), cache.values.clone):
        with CopiesOfCached(cache) as copies:
            copy()
        assert copies.found
    with CopiesOfCached(cache) as copies:
        F.scaled_dot_product_attention(
            torch.randn(BATCH, HEADS, 1, 64), cache.keys, cache.values, dropout_p=0.1, enable_gqa=True
        )
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
