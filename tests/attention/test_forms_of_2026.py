"""The forms of 2026: against loops in float64, against transformers' classes, and each shortcut against the rest."""

import math
import re

import numpy as np
import pytest
import torch

from course_lib.attention import (
    LlamaAttention,
    attend,
    causal_keep,
    index_scores,
    packed_keep,
    packed_positions,
    padding_keep,
    select_keep,
    soft_cap,
)
from course_lib.exercises import ALL

from .form_cases import assert_same
from .loop_reference import loop_attention, loop_rotary, to_array
from .test_kv_cache import CHUNKS, cache_for, in_chunks
from .test_llama import D_MODEL, FLOAT32_SOFTMAX, HEADS, TOKENS, build, draw_x

LENGTHS = [3, 1, 5]  # TOKENS = 9 in all


def draw(*shape, boost=3.0):
    return boost * torch.randn(*shape, dtype=torch.float64)


def projected(module, x):
    """Queries, keys and values of a module by head, (batch, head, token, head_dim), in numpy."""
    parts = {}
    for name in ("q_proj", "k_proj", "v_proj"):
        made = to_array(x) @ to_array(getattr(module, name).weight).T
        parts[name] = made.reshape(*made.shape[:2], -1, module.head_dim).swapaxes(1, 2)
    return parts.values()


def merged(module, context, gate=1.0):
    """The output of a module from the context of its heads, (batch, head, token, head_dim)."""
    by_token = context.swapaxes(1, 2).reshape(*context.shape[:1], context.shape[2], -1) * gate
    return torch.from_numpy(by_token @ to_array(module.out_proj.weight).T)


# --- packed texts ---


def test_packed_masks_and_positions_equal_walking_through_the_texts():
    keep, positions = torch.zeros(9, 9, dtype=torch.bool), []
    for text, length in enumerate(LENGTHS):
        start = sum(LENGTHS[:text])
        keep[start : start + length, start : start + length] = True
        positions += range(length)
    assert torch.equal(packed_keep(LENGTHS), keep)
    assert packed_positions(LENGTHS).tolist() == positions
    assert packed_positions(LENGTHS).dtype == torch.int64
    assert packed_keep(LENGTHS, device="meta").device.type == "meta"


@pytest.mark.parametrize("kv_heads", [6, 2])
@pytest.mark.parametrize("kernel", ["explicit", "fused"])
def test_each_packed_text_is_as_if_alone(kernel, kv_heads):
    module, x = build(kv_heads, kernel=kernel), draw_x()
    packed = module(x, keep=packed_keep(LENGTHS), positions=packed_positions(LENGTHS))
    alone = torch.cat([module(text) for text in x.split(LENGTHS, dim=1)], dim=1)
    assert_same(packed, alone, FLOAT32_SOFTMAX)
    on = module(x, keep=packed_keep(LENGTHS))  # rotary scores know distances only: positions that run on do no harm
    assert_same(on, alone, 1e-4)
    assert (module(x)[:, 3:] - alone[:, 3:]).abs().max() > 1e-2
    assert_same(module(x)[:, :3], alone[:, :3], FLOAT32_SOFTMAX)  # nothing stands before the first text


# --- selected keys ---


def selected_by_hand(scores, k, keep):
    found = np.zeros(scores.shape, dtype=bool)
    for row in np.ndindex(*scores.shape[:-1]):
        allowed = [key for key in range(scores.shape[-1]) if keep[row][key]]
        found[row][sorted(allowed, key=lambda key: -scores[row][key])[:k]] = True
    return found


@pytest.mark.parametrize("k", [1, 3, 6, 7, 50])
@pytest.mark.parametrize("shape", [(5, 7), (2, 5, 7), (2, 3, 5, 7)])
@pytest.mark.parametrize("mask", ["causal", "random", "none"])
def test_it_selects_the_highest_of_those_that_are_allowed(mask, shape, k):
    scores = draw(*shape)
    keep = {"causal": causal_keep(5, 7), "random": torch.rand(shape) < 0.4, "none": None}[mask]
    full = torch.ones(shape, dtype=torch.bool) if keep is None else keep.expand(shape)
    assert torch.equal(select_keep(scores, k, keep), torch.from_numpy(selected_by_hand(scores.numpy(), k, full)))


@pytest.mark.parametrize("k", [9, 10, 1000])
def test_k_of_all_tokens_or_more_is_dense_causal_attention(k):
    queries, keys, values = draw(2, 6, 9, 4), draw(2, 3, 9, 4), draw(2, 3, 9, 5)
    selected = select_keep(draw(2, 9, 9), k, causal_keep(9))
    assert torch.equal(selected, causal_keep(9).expand(2, 9, 9))
    assert_same(attend(queries, keys, values, selected[:, None])[0], attend(queries, keys, values, causal=True)[0])


def test_rows_with_nothing_to_select_select_nothing_and_stay_finite():
    keep = padding_keep([4, 0])[:, 0]  # (b, 1, k)
    selected = select_keep(draw(2, 5, 4), 3, keep)
    assert selected[0].sum(-1).tolist() == [3] * 5
    assert not selected[1].any()
    context, _ = attend(draw(2, 3, 5, 7), draw(2, 3, 4, 7), draw(2, 3, 4, 2), selected[:, None])
    assert (context[1] == 0).all()


def test_a_later_token_never_changes_what_earlier_ones_select_and_a_cache_changes_nothing():
    scores, k = draw(2, 9, 9), 3
    before = select_keep(scores, k, causal_keep(9))
    changed = scores.clone()
    changed[:, :, -1] = 100.0
    assert torch.equal(select_keep(changed, k, causal_keep(9))[:, :-1], before[:, :-1])
    for row in range(9):  # one new token and those before it
        alone = select_keep(scores[:, row : row + 1, : row + 1], k, causal_keep(1, row + 1))
        assert torch.equal(alone[:, 0], before[:, row, : row + 1])


def test_index_scores_equal_loops_and_deepseeks_indexer():
    queries, keys, head_weights = draw(2, 3, 5, 4), draw(2, 7, 4), draw(2, 5, 3)
    by_hand = np.zeros((2, 5, 7))
    for b, q, k, j in np.ndindex(2, 5, 7, 3):
        by_hand[b, q, k] += float(head_weights[b, q, j]) * max(0.0, float(queries[b, j, q] @ keys[b, k]))
    assert_same(index_scores(queries, keys, head_weights), torch.from_numpy(by_hand))
    pytest.importorskip("transformers.models.deepseek_v32")
    from transformers.models.deepseek_v32 import modeling_deepseek_v32 as deepseek

    sizes = {"index_n_heads": 3, "index_head_dim": 10, "qk_rope_head_dim": 4, "index_topk": 4, "q_lora_rank": 6}
    config = deepseek.DeepseekV32Config(hidden_size=8, num_attention_heads=2, num_hidden_layers=1, **sizes)
    indexer = deepseek.DeepseekV32Indexer(config, 0)
    with torch.no_grad():
        for parameter in indexer.parameters():
            parameter.copy_(torch.randn_like(parameter))
    x, latent = torch.randn(2, 9, 8), torch.randn(2, 9, 6)
    angles = torch.ones(2, 9, 4), torch.zeros(2, 9, 4)  # no rotation
    mask = causal_keep(9).expand(2, 9, 9)
    theirs = indexer(x, latent, angles, mask, torch.arange(9)[None])  # (b, q, k): the selected keys
    with torch.no_grad():
        by_head = indexer.wq_b(latent).view(2, 9, 3, 10).transpose(1, 2)
        scores = index_scores(by_head, indexer.k_norm(indexer.wk(x)), indexer.weights_proj(x))
    chosen = torch.zeros(2, 9, 9, dtype=torch.bool).scatter(-1, theirs.long(), True) & mask
    assert torch.equal(select_keep(scores, 4, causal_keep(9)), chosen)


# --- options of LlamaAttention ---


@pytest.mark.parametrize("cap", [0.5, 4.0, math.inf])
def test_a_cap_bends_scores_and_an_infinite_one_does_not(cap):
    queries, keys, values = draw(2, 6, 5, 4), draw(2, 3, 7, 4), draw(2, 3, 7, 8)
    expected = np.zeros((2, 6, 5, 7))
    for b, h, q in np.ndindex(2, 6, 5):
        scores = [float(queries[b, h, q] @ keys[b, h // 2, k]) / 2 for k in range(q + 3)]
        powers = [math.exp(score if cap == math.inf else cap * math.tanh(score / cap)) for score in scores]
        expected[b, h, q, : q + 3] = np.array(powers) / math.fsum(powers)
    assert_same(attend(queries, keys, values, causal=True, softcap=cap)[1], torch.from_numpy(expected))
    assert soft_cap(torch.tensor([-1e9, 1e9]), 3.0).tolist() == [-3.0, 3.0]


OPTIONS = {
    "nope": {"rotary": False},
    "qk norm": {"qk_norm": True},
    "gate": {"gate": True},
    "softcap": {"softcap": 0.7},
    "all": {"rotary": False, "qk_norm": True, "gate": True, "softcap": 0.7, "window": 4},
}


def with_drawn_norms(module):
    for norm in (module.q_norm, module.k_norm):
        if norm is not None:
            norm.weight.data = (1 + torch.rand_like(norm.weight)) * 1.5
    return module


@pytest.mark.parametrize("option", [each for each in OPTIONS if each != "all"])
def test_each_option_equals_the_loops(option):
    module, x = with_drawn_norms(build(2, exact=True, **OPTIONS[option])), draw_x(dtype=torch.float64)
    queries, keys, values = projected(module, x)
    if module.q_norm is not None:
        for array, norm in ((queries, module.q_norm), (keys, module.k_norm)):
            for row in np.ndindex(*array.shape[:3]):
                array[row] *= to_array(norm.weight) / math.sqrt(np.mean(array[row] ** 2) + 1e-6)
    if module.rotary:
        queries, keys = (loop_rotary(one, np.arange(TOKENS), module.rope_theta) for one in (queries, keys))
    gate = 1.0 if module.gate_proj is None else 1 / (1 + np.exp(-to_array(x) @ to_array(module.gate_proj.weight).T))
    if option == "softcap":  # a cap is no product, so its loop is the one above; here: the module passes it on
        tensors = [torch.from_numpy(one) for one in (queries, keys, values)]
        context = attend(*tensors, causal=True, softcap=0.7)[0].numpy()
    else:
        context, _ = loop_attention(queries, keys, values, to_array(causal_keep(TOKENS)))
    assert_same(module(x), merged(module, context, gate), FLOAT32_SOFTMAX)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_is_the_same_with_a_cache(option, chunks):
    module, x = with_drawn_norms(build(2, **OPTIONS[option])), draw_x()
    assert_same(in_chunks(module, x, CHUNKS[chunks], cache_for(module)), module(x), FLOAT32_SOFTMAX)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_gradient_reaches_every_parameter(option):
    module = build(2, **OPTIONS[option])
    module(draw_x()).square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in module.parameters())


def test_options_that_do_nothing_change_nothing():
    plain, x = build(2), draw_x()
    gated = build(2, gate=True, softcap=math.inf)
    gated.load_state_dict(plain.state_dict(), strict=False)
    gated.gate_proj.weight.data.zero_()  # sigmoid(0) = 1/2
    assert_same(2 * gated(x), plain(x))
    nope = build(2, rotary=False)
    assert_same(nope(x[:, [2, 0, 3, 1, *range(4, TOKENS)]])[:, 4:], nope(x)[:, 4:], FLOAT32_SOFTMAX)  # no order


# --- equal to transformers' classes ---

THEIRS = {
    "qwen3": ("Qwen3", {"qk_norm": True}, {}),
    "gemma2": ("Gemma2", {"softcap": 0.7}, {"attn_logit_softcapping": 0.7, "query_pre_attn_scalar": 10}),
    "gemma3": ("Gemma3", {"qk_norm": True}, {"query_pre_attn_scalar": 10}),
    "qwen3_next": ("Qwen3Next", {"qk_norm": True, "gate": True}, {}),
    "smollm3": ("SmolLM3", {"rotary": False}, {"no_rope_layers": [0]}),
}


@pytest.mark.parametrize("name", THEIRS)
def test_equals_the_class_of_transformers(name):
    pytest.importorskip("transformers", minversion="5")
    from importlib import import_module

    prefix, options, extra = THEIRS[name]
    library = import_module(f"transformers.models.{name}.modeling_{name}")
    own, x = with_drawn_norms(build(2, rope_theta=77.0, **options)), draw_x()
    config = getattr(library, f"{prefix}TextConfig" if name == "gemma3" else f"{prefix}Config")(
        hidden_size=D_MODEL, num_attention_heads=HEADS, num_key_value_heads=2, head_dim=10, num_hidden_layers=1,
        attention_bias=False, layer_types=["full_attention"], attn_implementation="eager", pad_token_id=0, **extra,
    )  # fmt: skip
    theirs = getattr(library, f"{prefix}Attention")(config, layer_idx=0).double().eval()
    state = {key.replace("out_proj", "o_proj"): value for key, value in own.state_dict().items()}
    if (gate := state.pop("gate_proj.weight", None)) is not None:  # theirs: each head's queries, then its gate
        pair = [one.view(HEADS, 10, D_MODEL) for one in (state["q_proj.weight"], gate)]
        state["q_proj.weight"] = torch.cat(pair, dim=1).flatten(0, 1)
    if name in ("gemma3", "qwen3_next"):  # their norms scale by 1 + weight
        state |= {key: value - 1 for key, value in state.items() if "norm" in key}
    theirs.load_state_dict(state)
    angles = [torch.cat([one[:TOKENS]] * 2, dim=-1)[None] for one in (own.cos, own.sin)]
    mask = torch.where(causal_keep(TOKENS), 0.0, -torch.inf).double()[None, None]
    output = theirs(x, position_embeddings=angles, attention_mask=mask)[0]
    assert_same(own(x), output, FLOAT32_SOFTMAX)


def test_the_configurations_are_those_of_lesson_12():
    transformers = pytest.importorskip("transformers", minversion="5")
    assert transformers.Gemma2Config().attn_logit_softcapping == 50.0
    assert transformers.Gemma2Config().final_logit_softcapping == 30.0
    sharing = transformers.Gemma3nTextConfig()
    assert sharing.kv_sharing_modes == [*sharing.kv_sharing_modes[:20], *["reuse"] * 15]
    kinds = "".join("G" if kind == "full_attention" else "L" for kind in sharing.layer_types)
    stores = {at for at, mode in enumerate(sharing.kv_sharing_modes) if mode == "store"}
    assert set(ALL["kv_layers"].solution(kinds, 15)[20:]) == stores
    for qwen, blocks in (transformers.Qwen3NextConfig(), 12), (transformers.Qwen3_5TextConfig(), 8):
        assert qwen.layer_types == [*["linear_attention"] * 3, "full_attention"] * blocks
    assert not [name for name in transformers.Gemma4TextConfig().to_dict() if "attn_logit_softcap" in name]
    assert transformers.SmolLM3Config().no_rope_layers == [1, 1, 1, 0] * 9
    deepseek = transformers.DeepseekV32Config()
    assert (deepseek.index_topk, deepseek.index_n_heads, deepseek.index_head_dim) == (2048, 64, 128)


# --- what is refused ---

X = torch.zeros(2, 3)
REFUSALS = [
    (lambda: packed_keep([]), "lengths is empty: give the number of tokens of each text, such as [5, 3]."),
    (lambda: packed_keep([2, 0]), "each of lengths must be at least 1, got 0."),
    (lambda: packed_positions([1.5]), "each of lengths must be an integer, got 1.5 (float)."),
    (lambda: select_keep(X, 0), "k must be at least 1, got 0."),
    (lambda: select_keep(X[0], 1), "scores must end in (query, key), got the shape (3,)."),
    (lambda: select_keep(X, 1, X.T > 0), "keep of shape (3, 2) does not broadcast to (batch, head, query, key) = "),
    (lambda: select_keep(X, 1, X), "keep must be bool with True = may attend, got torch.float32: "),
    (lambda: index_scores(X, X, X), "queries, keys and head_weights must be (batch, index head, query, width), "),
    (
        lambda: index_scores(draw(1, 2, 3, 4), draw(1, 5, 4), draw(1, 2, 3)),
        "keys (1, 5, 4) and head_weights (1, 2, 3) do not fit queries (1, 2, 3, 4): they must be (1, key, 4) and (1, ",
    ),
    (lambda: soft_cap(X, 0), "cap must be above 0, got 0: Gemma 2 uses 50.0, and infinity caps nothing."),
    (lambda: soft_cap(X, "5"), "cap must be a number, got '5' (str)."),
    (lambda: LlamaAttention(8, 2, softcap=-1), "softcap must be above 0, got -1: Gemma 2 uses 50.0"),
    (lambda: LlamaAttention(8, 2, gate=1), "gate must be True or False, got 1."),
    (lambda: LlamaAttention(8, 2, softcap=5.0, kernel="fused"), "softcap=5.0 needs kernel='explicit': PyTorch's ker"),
    (
        lambda: LlamaAttention(8, 2, gate=True).to_transformers(),
        "transformers' LlamaAttention is always rotary, without norms, gate or softcap: copy the state_dict into its ",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSALS)
def test_a_refusal_names_the_argument_the_value_and_the_remedy(call, sentence):
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(sentence)}"):
        call()


# --- planted mistakes: the comparisons above go red on each ---


def test_the_mask_lost_below_k_is_seen_and_not_by_long_texts():
    def shortcut(scores, k, keep):  # the bug class of 2026
        return torch.ones_like(keep) if len(keep) <= k else select_keep(scores, k, keep)

    for num_tokens, wrong in ((9, False), (4, True), (3, True)):
        scores, keep = draw(num_tokens, num_tokens), causal_keep(num_tokens)
        assert torch.equal(shortcut(scores, 4, keep), select_keep(scores, 4, keep)) != wrong


def test_selecting_before_masking_wastes_the_selection_on_hidden_keys():
    scores, keep = draw(9, 9), causal_keep(9)
    late = select_keep(scores, 3) & keep
    assert (late.sum(-1) < select_keep(scores, 3, keep).sum(-1)).any()


def test_a_cap_before_the_scale_is_a_smaller_cap():
    scores = draw(9)
    assert_same(soft_cap(scores, 50.0) / 4, soft_cap(scores / 4, 50.0 / 4))


def test_one_norm_over_all_heads_is_not_a_norm_of_each():
    module, x = build(2, qk_norm=True), draw_x()
    wide = module.q_proj(x)
    together = (wide / wide.pow(2).mean(-1, keepdim=True).sqrt()).view(*x.shape[:2], HEADS, -1)
    assert (together - module.q_norm(wide.view(*x.shape[:2], HEADS, -1))).abs().max() > 1e-2
