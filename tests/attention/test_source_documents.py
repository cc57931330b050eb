"""What the five sources print and is right, computed by the course's classes.

Sources 0 to 4 are the public documents the course grew out of, by the numbers of the team's record of them. Weights are
drawn as published: the same seed, the same statements in the same order. "Fixed" is what the published code computes
once its defects are mended. Tolerance: the digits that were printed.
"""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    attend,
    attend_fused,
    causal_keep,
    padding_keep,
    to_torch_mask,
)
from course_lib.attention.convert import to_torch
from course_lib.inputs import dream_big, four_by_six, kid_smiles, three_rows

from .loop_reference import loop_module, to_array

NUMBER = re.compile(r"-?inf|-?\d+\.\d*(?:e[+-]\d+)?")


def shows(tensor, text, digits=4):
    """Whether a tensor, rounded to some digits after the point, is the printed text."""
    printed = torch.tensor([float(number) for number in NUMBER.findall(text)], dtype=torch.float64)
    actual = tensor.detach().double().flatten()
    torch.testing.assert_close(actual, printed, rtol=0.0, atol=0.51 * 10**-digits + 2e-6)
    return True


def load(module, projections):
    """Carry published projections ({"q_proj": Linear or (out, in) weight}) over; a bias they lack is zero."""
    with torch.no_grad():
        for name, source in projections.items():
            own = module.get_submodule(name)
            own.weight.copy_(source.weight if isinstance(source, nn.Linear) else source)
            bias = getattr(source, "bias", None)
            if own.bias is not None:
                own.bias.zero_() if bias is None else own.bias.copy_(bias)
            else:
                assert bias is None, f"{name} is published with a bias"
    return module.eval()


# --- source 1: the wrapper ---

BOOK = torch.tensor(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)


@pytest.fixture
def source_1_wrapper():
    torch.manual_seed(123)
    wrapper = MultiHeadAttentionWrapper(3, 4, 2, out_proj=False)
    torch.manual_seed(123)
    heads = [{name: nn.Linear(3, 2, bias=False) for name in ("q_proj", "k_proj", "v_proj")} for _ in range(2)]
    return load(wrapper, {f"heads.{head}.{name}": each for head in range(2) for name, each in heads[head].items()})


def test_source_1_wrapper_fixed(source_1_wrapper):
    """Source 1, (c), wrapper context_vecs FIXED."""
    output = source_1_wrapper(dream_big().batch)
    assert output.shape == (1, 6, 4)
    assert shows(
        output,
        """[-0.5762, -0.1627,  0.5569,  0.3635], [-0.5650, -0.0630,  0.5599,  0.3006],
        [-0.5472, -0.1226,  0.5285,  0.3435], [-0.5787, -0.0943,  0.5621,  0.3388],
        [-0.5593, -0.0436,  0.5509,  0.3046], [-0.5287, -0.0033,  0.5277,  0.2743]""",
    )


def test_source_1_wrapper_fixed_attention_weights(source_1_wrapper):
    """Source 1, (c), weights of both heads."""
    _, weights = source_1_wrapper(dream_big().batch, return_weights=True)
    assert shows(
        weights,
        """[1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000], [0.4949, 0.5051, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.3326, 0.3278, 0.3395, 0.0000, 0.0000, 0.0000], [0.2472, 0.2516, 0.2407, 0.2604, 0.0000, 0.0000],
        [0.1974, 0.2025, 0.1900, 0.2092, 0.2009, 0.0000], [0.1655, 0.1692, 0.1601, 0.1740, 0.1680, 0.1632],
        [1.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000], [0.5203, 0.4797, 0.0000, 0.0000, 0.0000, 0.0000],
        [0.3411, 0.3135, 0.3454, 0.0000, 0.0000, 0.0000], [0.2601, 0.2367, 0.2601, 0.2431, 0.0000, 0.0000],
        [0.2140, 0.1931, 0.2154, 0.1985, 0.1789, 0.0000], [0.1841, 0.1641, 0.1869, 0.1689, 0.1512, 0.1449]""",
    )


def test_source_1_wrapper_uses_its_keys(source_1_wrapper):
    """Source 1, 1-1, fixed: the key weights get a gradient, and 100 * W + 7 moves the output by 0.1398."""
    x = dream_big().batch
    before = source_1_wrapper(x)
    before.sum().backward()
    largest = torch.tensor([head.k_proj.weight.grad.abs().max() for head in source_1_wrapper.heads])
    assert shows(largest, "0.024132 0.019029", 6)
    with torch.no_grad():
        for head in source_1_wrapper.heads:
            head.k_proj.weight.mul_(100).add_(7)
    assert shows((source_1_wrapper(x) - before).abs().max(), "0.1398")


def test_source_1_book_wrapper():
    """Source 1, (c), external anchor: the widely published values of the wrapper on the book's inputs."""
    torch.manual_seed(123)
    heads = [{name: nn.Linear(3, 2, bias=False) for name in ("q_proj", "k_proj", "v_proj")} for _ in range(2)]
    wrapper = MultiHeadAttentionWrapper(3, 4, 2, out_proj=False)
    load(wrapper, {f"heads.{head}.{name}": each for head in range(2) for name, each in heads[head].items()})
    output = wrapper(torch.stack([BOOK, BOOK]))
    for sample in output:
        assert shows(
            sample,
            """[-0.4519,  0.2216,  0.4772,  0.1063], [-0.5874,  0.0058,  0.5891,  0.3257],
            [-0.6300, -0.0632,  0.6202,  0.3860], [-0.5675, -0.0843,  0.5478,  0.3589],
            [-0.5526, -0.0981,  0.5321,  0.3428], [-0.5299, -0.1081,  0.5077,  0.3493]""",
        )


# --- source 1: multi-head attention ---


def draw_source_1(d_in, d_out, bias, d_proj=None):
    """Seed 123, then W_query, W_key, W_value and out_proj, which always has a bias."""
    torch.manual_seed(123)
    projections = {name: nn.Linear(d_in, d_out, bias=bias) for name in ("q_proj", "k_proj", "v_proj")}
    return projections | {"out_proj": nn.Linear(d_out, d_proj or d_out)}


def test_source_1_book_multi_head():
    """Source 1, (c), external anchor: the widely published values of multi-head attention, d_out = 2, two heads."""
    module = load(MultiHeadAttention(3, 2, 2, bias=True), draw_source_1(3, 2, bias=False))
    for sample in module(torch.stack([BOOK, BOOK])):
        assert shows(
            sample,
            """[0.3190, 0.4858], [0.2943, 0.3897], [0.2856, 0.3593], [0.2693, 0.3873], [0.2639, 0.3928],
            [0.2575, 0.4028]""",
        )


@pytest.fixture
def source_1_mha():
    return load(MultiHeadAttention(6, 6, 2, bias=True), draw_source_1(6, 6, bias=True))


def test_source_1_mha_fixed(source_1_mha):
    """Source 1, (c), MHA context_vecs FIXED, and the weights of both heads."""
    output, weights = source_1_mha(three_rows().batch, return_weights=True)
    assert output.shape == (2, 3, 6)
    for sample in output:
        assert shows(
            sample,
            """[-0.3068,  0.3131,  0.3645, -0.1419,  0.1140,  0.0421],
            [-0.3564,  0.3206,  0.3539, -0.1722,  0.1056,  0.0009],
            [-0.3465,  0.3427,  0.3842, -0.1503,  0.1512,  0.0489]""",
        )
    assert shows(
        weights[0],
        """[1.0000, 0.0000, 0.0000], [0.5035, 0.4965, 0.0000], [0.3362, 0.3298, 0.3339],
        [1.0000, 0.0000, 0.0000], [0.4815, 0.5185, 0.0000], [0.3235, 0.3417, 0.3349]""",
    )


def test_source_1_mha_unmasked(source_1_mha):
    """Source 1, (c), MHA AS PUBLISHED: its mask is thrown away, so it is right for causal=False, weights included."""
    source_1_mha.causal = False
    output, weights = source_1_mha(three_rows().batch, return_weights=True)
    for sample in output:
        assert shows(
            sample,
            """[-0.3464,  0.3428,  0.3846, -0.1505,  0.1512,  0.0491],
            [-0.3462,  0.3426,  0.3844, -0.1505,  0.1516,  0.0493],
            [-0.3465,  0.3427,  0.3842, -0.1503,  0.1512,  0.0489]""",
        )
    assert shows(
        weights[0],
        """[0.3364, 0.3298, 0.3338], [0.3352, 0.3305, 0.3342], [0.3362, 0.3298, 0.3339],
        [0.3061, 0.3483, 0.3456], [0.3174, 0.3418, 0.3408], [0.3235, 0.3417, 0.3349]""",
    )
    x = three_rows().batch
    unmasked = to_torch(source_1_mha)(x, x, x, need_weights=False)[0]
    torch.testing.assert_close(output, unmasked, rtol=0, atol=1e-6)


def test_source_1_mha_fixed_against_published(source_1_mha):
    """Source 1, (c): the discarded mask moves the output by 0.0484; the last row not at all."""
    x = three_rows().batch
    fixed = source_1_mha(x)
    source_1_mha.causal = False
    assert shows((source_1_mha(x) - fixed).abs().max(), "0.048419803380966187")
    torch.testing.assert_close(source_1_mha(x)[:, -1], fixed[:, -1], rtol=0, atol=1e-7)


def test_source_1_mha_fixed_equals_pytorch(source_1_mha):
    """Source 1, (c): SDPA and nn.MultiheadAttention differ by 6.0e-8, the weights by 3.0e-8; in float64 by 0."""
    x, mask = three_rows().batch, to_torch_mask(causal_keep(3))
    for tolerance in (1.5e-7, 1e-12):
        output, weights = source_1_mha(x, return_weights=True)
        expected, expected_weights = to_torch(source_1_mha)(x, x, x, attn_mask=mask, average_attn_weights=False)
        torch.testing.assert_close(output, expected, rtol=0, atol=tolerance)
        torch.testing.assert_close(weights, expected_weights, rtol=0, atol=tolerance)
        x, source_1_mha = x.double(), source_1_mha.double()


def test_source_1_masks_are_not_stored():
    """Source 1, 1-10: the weights take 7,077,888 bytes, one bool mask of 1024 takes 1,048,576, no module stores it."""
    wrapper = MultiHeadAttentionWrapper(768, 768, 12, out_proj=False)
    split = MultiHeadAttention(768, 768, 12, out_proj=False)
    for module in (wrapper, split):
        assert sum(tensor.nbytes for tensor in module.state_dict().values()) == 7_077_888
        assert list(module.buffers()) == []
    with_bias = [MultiHeadAttention(768, 768, 12).state_dict(), {"out_proj.bias": torch.zeros(768)}]
    assert sum(tensor.nbytes for state in with_bias for tensor in state.values()) == 9_440_256
    assert causal_keep(1024).nbytes == 1_048_576


# --- source 1: step by step ---


@pytest.fixture
def stepwise():
    torch.manual_seed(0)
    weights = [torch.randn(6, 6) for _ in range(3)]  # Wq, Wk, Wv for x @ W; nn.Linear holds their transposes
    module = MultiHeadAttention(6, 6, 2, out_proj=False)
    return load(module, {name: w.T for name, w in zip(("q_proj", "k_proj", "v_proj"), weights, strict=True)})


def by_head(module, x):
    projected = (module.q_proj(x), module.k_proj(x), module.v_proj(x))
    return [each.view(1, 3, 2, 3).transpose(1, 2) for each in projected]


def test_source_1_stepwise_attention_weights(stepwise):
    """Source 1, (c), stepwise weights, the small ones too, and 1-16: the entropy of each row."""
    _, weights = stepwise(kid_smiles().batch, return_weights=True)
    text = """[1.0000e+00, 0.0000e+00, 0.0000e+00], [0.0000e+00, 1.0000e+00, 0.0000e+00],
        [3.0851e-22, 9.9825e-01, 1.7546e-03], [1.0000e+00, 0.0000e+00, 0.0000e+00],
        [9.8486e-01, 1.5137e-02, 0.0000e+00], [9.9738e-01, 2.6229e-03, 1.2387e-08]"""
    printed = torch.tensor([float(number) for number in NUMBER.findall(text)])
    torch.testing.assert_close(weights.flatten(), printed, rtol=6e-5, atol=0)
    assert shows(entropy(weights), "0.0 0.0 0.012887075543403625 0.0 0.0784560889005661 0.018208779394626617", 6)
    with torch.no_grad():
        stepwise.q_proj.weight *= 6**-0.5
        stepwise.k_proj.weight *= 6**-0.5
    _, mild = stepwise(kid_smiles().batch, return_weights=True)
    assert shows(entropy(mild), "0.0 0.0 0.5725053548812866 0.0 0.6360912919044495 0.7123759984970093", 5)


def entropy(weights):
    return torch.special.entr(weights).sum(-1)


def test_source_1_stepwise_context(stepwise):
    """Source 1, (c), stepwise context WITHOUT dropout; SDPA differs by 1.9e-6, float64 by 1.5e-6."""
    x = kid_smiles().batch
    output = stepwise(x)
    assert output.shape == (1, 3, 6)
    assert shows(
        output,
        """[ 0.5076, -3.4353,  1.8576,  2.8041,  8.9427, 13.1841],
        [-1.9113, -3.6934,  1.8502,  2.7883,  8.8330, 13.0314],
        [-1.9083, -3.6887,  1.8478,  2.8013,  8.9237, 13.1576]""",
    )
    queries, keys, values = by_head(stepwise, x)
    fused = F.scaled_dot_product_attention(queries, keys, values, is_causal=True).transpose(1, 2).reshape(1, 3, 6)
    torch.testing.assert_close(output, fused, rtol=0, atol=4e-6)
    torch.testing.assert_close(output.double(), stepwise.double()(x.double()), rtol=0, atol=4e-6)


def test_source_1_stepwise_dropout_scales_what_it_keeps(stepwise):
    """Source 1, 1-7: dropout 0.1 in training makes what is kept 1.1111 times larger; 14.6490 is 13.1841 so scaled."""
    queries, keys, values = by_head(stepwise, kid_smiles().batch)
    keep = causal_keep(3)
    _, clean = attend(queries, keys, values, keep)
    for _ in range(20):
        _, weights = attend(queries, keys, values, keep, 0.1)
        kept = weights != 0
        torch.testing.assert_close(weights[kept], clean[kept] * 1.1111, rtol=2e-5, atol=0)
    assert shows(stepwise(kid_smiles().batch)[0, 0, 5] / 0.9, "14.6490")


# --- source 0 ---


def draw_source_0(dim_in, dim_k, dim_v, dim_o):
    """linear_q, linear_k, linear_v, linear_o, all with a bias."""
    widths = {
        "q_proj": (dim_in, dim_k),
        "k_proj": (dim_in, dim_k),
        "v_proj": (dim_in, dim_v),
        "out_proj": (dim_v, dim_o),
    }
    return {name: nn.Linear(*sizes) for name, sizes in widths.items()}


@pytest.fixture(scope="module")
def source_0():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        x = torch.randn(24, 100, 1024)
        module = MultiHeadAttention(1024, 2048, 8, d_qk=512, d_v=888, bias=True)
        torch.manual_seed(0)
        torch.randn(24, 100, 1024)
        load(module, draw_source_0(1024, 512, 888, 2048))
        with torch.no_grad():
            return module, x, module(x)


@pytest.mark.slow
def test_source_0_published_size(source_0):
    """Source 0, (c): shape, sum, spread and three rows at the published size."""
    _, _, output = source_0
    assert output.shape == (24, 100, 2048)
    assert output.double().sum().item() == pytest.approx(3.7699, abs=0.02)  # of 4.9 million summed in float32
    assert shows(output.double().mean(), "0.000001", 6)
    assert shows(output.double().std(), "0.081885", 6)
    assert shows(output.abs().max(), "1.5159")
    assert shows(output[0, 0, :6], "[ 0.4444,  0.3923,  0.1837,  0.4253, -0.2969,  0.1032]")
    assert shows(output[-1, -1, -6:], "[-0.0178, -0.0057, -0.0416, -0.0084, -0.0143, -0.0118]")
    assert shows(output[0, 50, :6], "[-0.0559, -0.0263, -0.0280,  0.0737,  0.0166,  0.0736]")


def test_source_0_parameters(source_0):
    """Source 0, (a): 3,780,472 parameters, head_dim 64, value width 111."""
    module, _, _ = source_0
    assert sum(parameter.numel() for parameter in module.parameters()) == 3_780_472
    assert (module.head_dim, module.value_dim) == (64, 111)


def test_source_0_fused(source_0):
    """Source 0, (c): the fused kernel differs by 2.5e-7."""
    module, x, output = source_0
    fused = MultiHeadAttention(1024, 2048, 8, d_qk=512, d_v=888, bias=True, kernel="fused")
    fused.load_state_dict(module.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(fused(x[:3]), output[:3], rtol=0, atol=1e-6)


def test_source_0_float64(source_0):
    """Source 0, (c): its own float64 differs by 9.3e-7 at most."""
    module, x, output = source_0
    state = {name: to_array(tensor) for name, tensor in module.state_dict().items()}
    expected, _ = loop_module(to_array(x[:1, :20]), state, 8, 8)
    torch.testing.assert_close(output[:1, :20].double(), torch.from_numpy(expected), rtol=0, atol=1e-6)


@pytest.fixture
def tiny_source_0():
    torch.manual_seed(0)
    x = torch.randn(1, 3, 6)
    projections = draw_source_0(6, 4, 8, 5)
    return load(MultiHeadAttention(6, 5, 2, d_qk=4, d_v=8, bias=True), projections), x


def test_source_0_tiny_causal(tiny_source_0):
    """Source 0, (c), tiny, causal."""
    module, x = tiny_source_0
    assert shows(
        module(x),
        """[-0.0612,  0.4546, -0.0736,  0.3816,  0.5785], [ 0.0730,  0.3572, -0.0711,  0.5197,  0.3592],
        [ 0.0946,  0.2878, -0.1801,  0.3019,  0.2502]""",
    )


def test_source_0_tiny_no_mask(tiny_source_0):
    """Source 0, (c), tiny, no mask."""
    module, x = tiny_source_0
    module.causal = False
    assert shows(
        module(x),
        """[ 0.0635, -0.0647, -0.2948,  0.1627,  0.1936], [ 0.0877,  0.1917, -0.2023,  0.2759,  0.2360],
        [ 0.0946,  0.2878, -0.1801,  0.3019,  0.2502]""",
    )


def test_source_0_tiny_causal_and_padding(tiny_source_0):
    """Source 0, (c), tiny, causal and padding_mask=[[0, 0, 1]], there with True = hidden."""
    module, x = tiny_source_0
    keep = padding_keep([2], 3)
    assert to_torch_mask(keep).tolist() == [[False, False, True]]
    assert shows(
        module(x, keep=keep),
        """[-0.0612,  0.4546, -0.0736,  0.3816,  0.5785], [ 0.0730,  0.3572, -0.0711,  0.5197,  0.3592],
        [ 0.1120,  0.4104, -0.0212,  0.5783,  0.3229]""",
    )


# --- source 2 ---


def draw_source_2(dim_in, dim_k, dim_v, dim_o, num_heads):
    """linear_q, linear_k, linear_v, linear_o, all with a bias; keys and values of one head."""
    widths = {"q_proj": (dim_in, dim_k), "k_proj": (dim_in, dim_k // num_heads), "v_proj": (dim_in, dim_v // num_heads)}
    return {name: nn.Linear(*sizes) for name, sizes in (widths | {"out_proj": (dim_v, dim_o)}).items()}


@pytest.fixture
def source_2():
    torch.manual_seed(0)
    x = torch.randn(10, 100, 512)
    projections = draw_source_2(512, 128, 128, 64, 8)
    return load(MultiQueryAttention(512, 64, 8, d_qk=128, d_v=128, bias=True), projections), x


def test_source_2_published_size(source_2):
    """Source 2, (c): shape, sum, spread and three rows at the published size."""
    module, x = source_2
    output = module(x)
    assert output.shape == (10, 100, 64)
    assert output.double().sum().item() == pytest.approx(-281.8558, abs=0.005)
    assert shows(output.double().mean(), "-0.004404", 6)
    assert shows(output.double().std(), "0.090996", 6)
    assert shows(output.abs().max(), "1.1737")
    assert shows(output[0, 0, :6], "[ 0.2464, -0.2130,  0.2668, -0.1582,  0.1085, -0.5949]")
    assert shows(output[-1, -1, -6:], "[-0.0050, -0.0342, -0.0118,  0.0756,  0.0249,  0.0804]")
    assert shows(output[0, 50, :6], "[ 0.0420, -0.0850, -0.0420,  0.1100,  0.0160, -0.0121]")


def test_source_2_fused(source_2):
    """Source 2, (c): SDPA with enable_gqa differs by 1.8e-7."""
    module, x = source_2
    fused = MultiQueryAttention(512, 64, 8, d_qk=128, d_v=128, bias=True, kernel="fused")
    fused.load_state_dict(module.state_dict())
    torch.testing.assert_close(fused(x), module(x), rtol=0, atol=1e-6)


def test_source_2_parameters_and_cache(source_2):
    """Source 2, (a) and (c): 90,336 parameters, 205,248 in multi-head; the cache holds 32 floats a token, 256 there."""
    module, _ = source_2
    split = MultiHeadAttention(512, 64, 8, d_qk=128, d_v=128, bias=True)
    for form, parameters, cached in ((module, 90_336, 32), (split, 205_248, 256)):
        assert sum(parameter.numel() for parameter in form.parameters()) == parameters
        assert form.k_proj.out_features + form.v_proj.out_features == cached


def test_source_2_tiny():
    """Source 2, (c), tiny, causal."""
    torch.manual_seed(0)
    x = torch.randn(1, 3, 6)
    projections = draw_source_2(6, 4, 8, 5, 2)
    module = load(MultiQueryAttention(6, 5, 2, d_qk=4, d_v=8, bias=True), projections)
    assert shows(
        module(x),
        """[-0.3004, -0.0570,  0.1420, -0.0419,  0.1008], [-0.3094, -0.2302,  0.4342, -0.0682, -0.2680],
        [-0.5035, -0.2417,  0.4699, -0.0766, -0.1824]""",
    )


# --- source 3 ---


@pytest.fixture
def source_3():
    module = MultiHeadAttention(6, 6, 2, out_proj=False)
    return load(module, dict.fromkeys(("q_proj", "k_proj", "v_proj"), torch.eye(6)))


def test_source_3_toy(source_3):
    """Source 3, (c): queries, keys and values are the two blocks; weights and merged output without a mask."""
    source_3.causal = False
    output, weights = source_3(four_by_six().batch, return_weights=True)
    assert shows(
        weights,
        """[0.2606, 0.3098, 0.2303, 0.1992], [0.2597, 0.3294, 0.2296, 0.1813], [0.2537, 0.3017, 0.2658, 0.1788],
        [0.2585, 0.2807, 0.2107, 0.2501], [0.2612, 0.2271, 0.2561, 0.2557], [0.2507, 0.2424, 0.2695, 0.2374],
        [0.2449, 0.2335, 0.2813, 0.2402], [0.2546, 0.2142, 0.2502, 0.2810]""",
    )
    assert shows(
        output,
        """[0.7351, 0.5539, 0.4494, 0.4121, 0.5030, 0.4745], [0.7390, 0.5678, 0.4578, 0.4238, 0.4921, 0.4722],
        [0.7175, 0.5711, 0.4589, 0.4247, 0.4916, 0.4770], [0.7386, 0.5159, 0.4258, 0.4003, 0.5102, 0.4811]""",
    )


def test_source_3_toy_causal(source_3):
    """Source 3, (c): the same with a causal mask."""
    output, weights = source_3(four_by_six().batch, return_weights=True)
    assert shows(
        weights,
        """[1.0000, 0.0000, 0.0000, 0.0000], [0.4409, 0.5591, 0.0000, 0.0000], [0.3090, 0.3674, 0.3236, 0.0000],
        [0.2585, 0.2807, 0.2107, 0.2501], [1.0000, 0.0000, 0.0000, 0.0000], [0.5084, 0.4916, 0.0000, 0.0000],
        [0.3224, 0.3074, 0.3703, 0.0000], [0.2546, 0.2142, 0.2502, 0.2810]""",
    )
    assert shows(
        output,
        """[0.7924, 0.4975, 0.5119, 0.4034, 0.6843, 0.3314], [0.8877, 0.6565, 0.5368, 0.4666, 0.4842, 0.3081],
        [0.7042, 0.6912, 0.5397, 0.5386, 0.4312, 0.4266], [0.7386, 0.5159, 0.4258, 0.4003, 0.5102, 0.4811]""",
    )


# --- source 4 ---


class SourceFour:
    """Source 4 under seed 0: the cells' random numbers in their order, in one module of two heads."""

    def __init__(self):
        torch.manual_seed(0)
        self.single_x = torch.randn(2, 4, 12)
        self.single = [torch.rand(16, 12) for _ in range(3)]  # k, q, v
        self.x = torch.randn(2, 4, 12)
        heads = [[torch.rand(16, 12) for _ in range(3)] for _ in range(2)]  # k, q, v of head 1, of head 2
        projections = {
            f"{name}_proj": torch.cat([head[each] for head in heads]) for each, name in enumerate(("k", "q", "v"))
        }
        projections["out_proj"] = torch.rand(16, 32)
        self.module = load(MultiHeadAttention(12, 16, 2, d_qk=32, d_v=32), projections)


@pytest.fixture
def source_4():
    return SourceFour()


def test_source_4_single_head(source_4):
    """Source 4, (c): single-head attn and out."""
    keys, queries, values = ((source_4.single_x @ weight.T)[:, None] for weight in source_4.single)
    context, weights = attend(queries, keys, values, causal_keep(4))
    assert shows(
        weights,
        """[1.0000, 0.0000, 0.0000, 0.0000], [0.0010, 0.9990, 0.0000, 0.0000], [0.0000, 0.0006, 0.9994, 0.0000],
        [0.0001, 0.0147, 0.2709, 0.7144], [1.0000, 0.0000, 0.0000, 0.0000], [0.9969, 0.0031, 0.0000, 0.0000],
        [0.0000, 0.0000, 1.0000, 0.0000], [0.0721, 0.4732, 0.4050, 0.0497]""",
    )
    assert shows(
        context[0, 0, :, :4],
        """[-1.6723, -4.0907, -2.6909, -0.7933], [-0.1064,  1.8953,  0.9585,  0.5300],
        [ 1.8661,  0.7894,  1.4231,  1.3485], [ 0.8886,  0.7407,  0.7660,  0.0939]""",
    )


def test_source_4_two_heads_fixed(source_4):
    """Source 4, (c): FIXED attn_1 and attn_2, which differ."""
    _, weights = source_4.module(source_4.x, return_weights=True)
    assert shows(
        weights[:, 0],
        """[1.0000, 0.0000, 0.0000, 0.0000], [0.6243, 0.3757, 0.0000, 0.0000], [0.2196, 0.3642, 0.4162, 0.0000],
        [0.0932, 0.1606, 0.0208, 0.7254], [1.0000, 0.0000, 0.0000, 0.0000], [0.0000, 1.0000, 0.0000, 0.0000],
        [0.0012, 0.9952, 0.0036, 0.0000], [0.2827, 0.0836, 0.0426, 0.5911]""",
    )
    assert shows(
        weights[:, 1],
        """[1.0000, 0.0000, 0.0000, 0.0000], [0.7994, 0.2006, 0.0000, 0.0000], [0.6758, 0.1993, 0.1249, 0.0000],
        [0.1030, 0.4093, 0.0380, 0.4497], [1.0000, 0.0000, 0.0000, 0.0000], [0.0000, 1.0000, 0.0000, 0.0000],
        [0.0005, 0.9927, 0.0068, 0.0000], [0.3992, 0.0003, 0.0008, 0.5997]""",
    )


def test_source_4_multi_head_output_fixed(source_4):
    """Source 4, (c): FIXED multi_head_output, its mean, and SDPA's within 6.5e-8 of it (relative)."""
    output = source_4.module(source_4.x)
    assert output.shape == (2, 4, 16)
    assert shows(
        output[..., :4],
        """[-7.9324, -8.1896, -8.6480, -9.3436], [-7.4141, -7.5901, -8.9037, -8.6298],
        [-8.6057, -8.8595, -10.7202, -8.5196], [-6.6059, -4.2756, -6.5625, -5.8823],
        [-8.2058, -5.1552, -6.1266, -5.2384], [27.9307, 23.5445, 27.8786, 26.7072],
        [27.8186, 23.4578, 27.7816, 26.6146], [-8.8703, -6.9280, -8.8640, -7.3705]""",
        digits=4 - 1,  # the fourth digit of 27.9307 is at the end of float32
    )
    assert shows(output.abs().mean(), "12.060696601867676", 4)
    queries, keys, values = (
        each(source_4.x).view(2, 4, 2, 16).transpose(1, 2)
        for each in (source_4.module.q_proj, source_4.module.k_proj, source_4.module.v_proj)
    )
    fused = attend_fused(queries, keys, values, causal_keep(4)).transpose(1, 2).reshape(2, 4, 32)
    torch.testing.assert_close(source_4.module.out_proj(fused), output, rtol=1e-6, atol=1e-5)


def test_source_4_gradients_fixed(source_4):
    """Source 4, (c): the largest gradient of the summed output in each projection of each head."""
    source_4.module(source_4.x).sum().backward()
    expected = {"q_proj": (73.6999, 27.6029), "k_proj": (79.3382, 26.009), "v_proj": (70.5572, 62.8852)}
    for name, largest in expected.items():
        grad = source_4.module.get_submodule(name).weight.grad
        for part, number in zip(grad.chunk(2), largest, strict=True):
            assert part.abs().max().item() == pytest.approx(number, rel=2e-5)
