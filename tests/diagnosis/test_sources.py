"""The mistakes of the five published sources, in our own words: each is named, with the line that is to blame."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(4)

BATCH, TOKENS, D_IN, HEADS, HEAD_DIM = 2, 5, 11, 3, 7
D_OUT = HEADS * HEAD_DIM


@pytest.fixture(autouse=True)
def same_weights():
    torch.manual_seed(0)


def some_x(batch=BATCH, width=D_IN):
    return torch.randn(batch, TOKENS, width, generator=torch.Generator().manual_seed(1))


def hidden_from(x):
    """(query, key), 1 = must not attend, as most of the sources write it."""
    return torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1)


def additive(x):
    """(query, key), 0 = may attend, -inf = must not."""
    return torch.zeros_like(hidden_from(x), dtype=x.dtype).masked_fill(hidden_from(x).bool(), -torch.inf)


def found(report):
    """mistake -> line, in order."""
    return {finding.mistake: finding.where for finding in report.findings}


def check_only(report, mistake, lines):
    assert report.mistakes == (mistake,), report
    assert report.findings[0].where in lines, report


# --- source 0: many heads, a mask for the future and one for padding ---


class TwoMasks(nn.Module):
    """Keys and values may differ in width; in both masks 1 means hide."""

    def __init__(self, d_in, d_k, d_v, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.linear_q, self.linear_k = nn.Linear(d_in, d_k), nn.Linear(d_in, d_k)
        self.linear_v, self.linear_o = nn.Linear(d_in, d_v), nn.Linear(d_v, d_out)

    def split(self, t):
        return t.reshape(t.shape[0], t.shape[1], self.num_heads, -1).transpose(1, 2)

    def forward(self, x, causal_mask=None, padding_mask=None):
        q, k, v = self.split(self.linear_q(x)), self.split(self.linear_k(x)), self.split(self.linear_v(x))
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])  # product
        if padding_mask is not None:
            scores = scores.masked_fill(padding_mask[:, None, None, :] == 1, -torch.inf)  # padding
        if causal_mask is not None:
            scores = scores.masked_fill(causal_mask == 1, -torch.inf)  # future
        weights = torch.softmax(scores, dim=-1)  # softmax
        return self.linear_o((weights @ v).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class RoundedScale(TwoMasks):
    """The root of head_dim is a tensor of 32 bits, whatever x is."""

    def forward(self, x, causal_mask=None):
        q, k, v = self.split(self.linear_q(x)), self.split(self.linear_k(x)), self.split(self.linear_v(x))
        root = torch.sqrt(torch.tensor(q.shape[-1], dtype=torch.float32))  # scale
        scores = q @ k.transpose(2, 3) / root  # scale
        if causal_mask is not None:
            scores = scores.masked_fill(causal_mask == 1, -torch.inf)
        weights = torch.softmax(scores, dim=-1)
        return self.linear_o((weights @ v).transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


def two_masks(kind=TwoMasks):
    return kind(D_IN, D_OUT, 2 * HEADS, 13, HEADS)


LEFT = torch.ones(BATCH, TOKENS, dtype=torch.bool)
LEFT[1, :2] = False  # True = a token; two of padding in front of the second sample


@pytest.mark.slow
def test_the_first_source_is_attention():
    assert diagnose(two_masks(), some_x(), num_heads=HEADS, call=lambda m, x: m(x, hidden_from(x))).ok
    assert diagnose(two_masks(), some_x(), num_heads=HEADS, causal=False).ok
    right, call = LEFT.flip(1), lambda m, x: m(x, hidden_from(x), ~LEFT.flip(1))
    for keep in (right, right[:, None, None, :]):
        assert diagnose(two_masks(), some_x(), num_heads=HEADS, keep=keep, call=call).ok


@pytest.mark.parametrize("causal", [True, False])
def test_a_row_with_nothing_to_see_is_nan(causal):
    keep = LEFT.clone()
    if not causal:
        keep[1] = False  # a sample of padding alone

    def call(module, x):
        return module(x, hidden_from(x) if causal else None, ~keep)

    report = diagnose(two_masks(), some_x(), num_heads=HEADS, keep=keep, causal=causal, call=call)
    check_only(
        report,
        "nan-on-hidden-rows",
        marked(TwoMasks, "padding") | marked(TwoMasks, "future") | marked(TwoMasks, "softmax"),
    )
    assert ("2" if causal else "5") in report.findings[0].evidence


def test_a_mask_in_the_sense_of_keep_is_inverted():
    report = diagnose(two_masks(), some_x(), num_heads=HEADS, call=lambda m, x: m(x, 1 - hidden_from(x)))
    check_only(report, "mask-inverted", marked(TwoMasks, "future"))
    right = LEFT.flip(1)
    told = {"num_heads": HEADS, "keep": right, "causal": False}
    report = diagnose(two_masks(), some_x(), call=lambda m, x: m(x, None, right), **told)
    check_only(report, "mask-inverted", marked(TwoMasks, "padding"))


@pytest.mark.parametrize("encode", [additive, lambda x: 255 * hidden_from(x), lambda x: 0.9999999 * hidden_from(x)])
def test_a_mask_in_another_encoding_hides_nothing(encode):
    report = diagnose(two_masks(), some_x(), num_heads=HEADS, call=lambda m, x: m(x, encode(x)))
    check_only(report, "no-causal-mask", marked(TwoMasks, "future"))


def test_masks_of_samples_that_meet_heads():
    own = torch.rand(HEADS, TOKENS, TOKENS, generator=torch.Generator().manual_seed(3)) > 0.4
    own |= torch.eye(TOKENS, dtype=torch.bool)
    report = diagnose(
        two_masks(),
        some_x(batch=HEADS),  # as many samples as heads, so that nothing fails
        num_heads=HEADS,
        keep=own[:, None],
        call=lambda m, x: m(x, hidden_from(x).bool() | ~own),
    )
    check_only(report, "mask-rank", marked(TwoMasks, "future"))


def test_a_scale_of_32_bits_is_no_mistake_because_it_runs_in_16_bits():
    report = diagnose(two_masks(RoundedScale), some_x(), num_heads=HEADS, call=lambda m, x: m(x, hidden_from(x)))
    assert report.ok, report
    assert report.remarks == (
        f"{min(marked(RoundedScale, 'scale'))} makes a constant in float32, which has 7 digits in a run in float64",
    )


def test_products_that_overflow_before_they_are_scaled():
    told = {"num_heads": HEADS, "call": lambda m, x: m(x, hidden_from(x))}
    report = diagnose(two_masks().half(), 500 * some_x().half(), **told)  # 290 * 290 * 7 is beyond 65504
    check_only(report, "overflow-half", marked(TwoMasks, "product"))
    assert diagnose(two_masks().half(), some_x().half(), **told).ok


# --- source 1: a wrapper around single heads, and one module that splits its weights ---


class ValuesForKeys(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))  # length

    def forward(self, x):
        num_tokens = x.shape[1]
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ values.transpose(1, 2)  # wrong
        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
        return weights @ values


class KeysForKeys(ValuesForKeys):
    def forward(self, x):
        num_tokens = x.shape[1]
        queries, keys, values = self.W_query(x), self.W_key(x), self.W_value(x)
        scores = queries @ keys.transpose(1, 2)
        scores.masked_fill_(self.mask.bool()[:num_tokens, :num_tokens], -torch.inf)
        weights = self.dropout(torch.softmax(scores / keys.shape[-1] ** 0.5, dim=-1))
        return weights @ values


class Wrapper(nn.Module):
    def __init__(self, head, d_in, d_out, context_length, dropout, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(head(d_in, d_out, context_length, dropout) for _ in range(num_heads))

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], dim=-1)


class AsPublished(nn.Module):
    """All heads in one: the mask is thrown away, and the output is as wide as the input."""

    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__()
        self.d_out, self.num_heads, self.head_dim = d_out, num_heads, d_out // num_heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out) for _ in range(3))
        self.out_proj = nn.Linear(d_out, d_in)  # width
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_length, context_length), diagonal=1))  # length

    def split(self, t):
        return t.view(t.shape[0], t.shape[1], self.num_heads, self.head_dim).transpose(1, 2)

    def finish(self, scores, values):
        weights = self.dropout(torch.softmax(scores / self.head_dim**0.5, dim=-1))
        context = (weights @ values).transpose(1, 2)
        return self.out_proj(context.reshape(context.shape[0], context.shape[1], self.d_out))

    def forward(self, x):
        queries, keys, values = (self.split(part(x)) for part in (self.W_query, self.W_key, self.W_value))
        scores = queries @ keys.transpose(2, 3)
        hidden = self.mask.bool()[: x.shape[1], : x.shape[1]]
        scores.masked_fill(hidden, -torch.inf)  # mask
        return self.finish(scores, values)


class MaskKept(AsPublished):
    def forward(self, x):
        queries, keys, values = (self.split(part(x)) for part in (self.W_query, self.W_key, self.W_value))
        scores = queries @ keys.transpose(2, 3)
        hidden = self.mask.bool()[: x.shape[1], : x.shape[1]]
        scores = scores.masked_fill(hidden, -torch.inf)
        return self.finish(scores, values)


class WidthMended(AsPublished):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__(d_in, d_out, context_length, dropout, num_heads)
        self.out_proj = nn.Linear(d_out, d_out)


class Mended(MaskKept):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads):
        super().__init__(d_in, d_out, context_length, dropout, num_heads)
        self.out_proj = nn.Linear(d_out, d_out)


class StaysOn(nn.Module):
    """One head whose dropout is made anew in each call, so that it is always in training."""

    def __init__(self, d_in, d_out):
        super().__init__()
        self.W_query, self.W_key, self.W_value = (nn.Linear(d_in, d_out, bias=False) for _ in range(3))

    def forward(self, x):
        scores = self.W_query(x) @ self.W_key(x).mT / self.W_key.out_features**0.5
        weights = scores.masked_fill(hidden_from(x).bool(), -torch.inf).softmax(dim=-1)
        weights = nn.Dropout(0.1)(weights)  # wrong
        return weights @ self.W_value(x)


def test_the_second_source_mended_is_attention():
    assert diagnose(Wrapper(KeysForKeys, D_IN, HEAD_DIM, 13, 0.1, HEADS), some_x(), num_heads=HEADS).ok
    assert diagnose(Mended(D_IN, D_OUT, 13, 0.1, HEADS), some_x(), num_heads=HEADS).ok


def test_heads_that_score_with_values():
    module = Wrapper(ValuesForKeys, D_IN, HEAD_DIM, 13, 0.0, HEADS)
    check_only(diagnose(module, some_x(), num_heads=HEADS), "scores-from-values", marked(ValuesForKeys))
    one = ValuesForKeys(D_IN, HEAD_DIM, 13, 0.1)
    check_only(diagnose(one, some_x()), "scores-from-values", marked(ValuesForKeys))


@pytest.mark.slow
def test_a_mask_thrown_away_and_widths_exchanged():
    published = diagnose(AsPublished(D_IN, D_OUT, 13, 0.0, HEADS), some_x(), num_heads=HEADS)
    (mask,), (width,) = marked(AsPublished, "mask"), marked(AsPublished, "width")
    assert found(published) == {"mask-discarded": mask, "output-projection-shape": width}
    one = diagnose(MaskKept(D_IN, D_OUT, 13, 0.0, HEADS), some_x(), num_heads=HEADS)
    assert found(one) == {"output-projection-shape": width}
    other = diagnose(WidthMended(D_IN, D_OUT, 13, 0.0, HEADS), some_x(), num_heads=HEADS)
    assert found(other) == {"mask-discarded": mask}


def test_the_published_sizes_hide_a_width_but_not_the_mask():
    module, x = AsPublished(6, 6, 3, 0.0, 2), torch.randn(1, 3, 6).expand(2, -1, -1)  # the same sample twice
    check_only(diagnose(module, x, num_heads=2), "mask-discarded", marked(AsPublished, "mask"))


@pytest.mark.parametrize("kind", ["wrapper", "weight split"])
def test_a_context_of_one_token_hides_nothing(kind):
    wrapper = Wrapper(KeysForKeys, D_IN, HEAD_DIM, 1, 0.0, HEADS)
    module = wrapper if kind == "wrapper" else Mended(D_IN, D_OUT, 1, 0.0, HEADS)
    lines = marked(ValuesForKeys if kind == "wrapper" else AsPublished, "length")
    check_only(diagnose(module, some_x(), num_heads=HEADS), "fixed-length", lines)


def test_a_context_that_is_too_short_is_an_error_with_its_line():
    report = diagnose(Mended(D_IN, D_OUT, TOKENS - 1, 0.0, HEADS), some_x(), num_heads=HEADS)
    assert not report.ok and "must match the size of tensor" in report.findings[0].evidence
    assert report.findings[0].where.startswith("test_sources.py:")


def test_dropout_that_stays_on():
    check_only(diagnose(StaysOn(D_IN, HEAD_DIM), some_x()), "dropout-at-eval", marked(StaysOn))
    usual = Wrapper(KeysForKeys, D_IN, HEAD_DIM, 13, 0.5, HEADS).train()
    assert diagnose(usual, some_x(), num_heads=HEADS).ok


# --- source 2: many queries, one head of keys and values ---


class SharedKeys(nn.Module):
    """Takes one mask for all, (query, key), 1 = hide."""

    def __init__(self, d_in, d_k, d_v, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.linear_q, self.linear_o = nn.Linear(d_in, d_k), nn.Linear(d_v, d_out)
        self.linear_k, self.linear_v = nn.Linear(d_in, d_k // num_heads), nn.Linear(d_in, d_v // num_heads)

    def forward(self, x, mask=None):
        b, t, _ = x.shape
        q = self.linear_q(x).reshape(b, t, self.num_heads, -1).transpose(1, 2)
        k, v = self.linear_k(x).unsqueeze(1), self.linear_v(x).unsqueeze(1)
        scores = q @ k.transpose(2, 3) * (1 / math.sqrt(q.shape[-1]))
        if mask is not None:
            mask = mask.unsqueeze(0).unsqueeze(0)  # wrong
            scores = scores.masked_fill(mask == 1, -torch.inf)  # wrong
        weights = torch.softmax(scores, dim=-1)
        return self.linear_o((weights @ v).transpose(1, 2).reshape(b, t, -1))


MASKS = {
    "(1, T, T)": lambda x: hidden_from(x)[None],
    "(1, 1, T, T)": lambda x: hidden_from(x)[None, None],
    "(B, 1, T, T)": lambda x: hidden_from(x).expand(len(x), 1, -1, -1),
    "(B, H, T, T)": lambda x: hidden_from(x).expand(len(x), HEADS, -1, -1),
}


def shared_keys():
    return SharedKeys(D_IN, D_OUT, 2 * HEADS, 13, HEADS)


def test_the_third_source_is_attention_with_its_own_mask():
    told = {"num_heads": HEADS, "num_kv_heads": 1}
    assert diagnose(shared_keys(), some_x(), call=lambda m, x: m(x, hidden_from(x)), **told).ok
    assert diagnose(shared_keys(), some_x(), causal=False, **told).ok


@pytest.mark.parametrize("shape", MASKS)
def test_a_mask_with_too_many_axes_scrambles_the_heads(shape):
    call, told = (lambda m, x: m(x, MASKS[shape](x))), {"num_heads": HEADS, "num_kv_heads": 1}
    check_only(diagnose(shared_keys(), some_x(), call=call, **told), "mask-rank", marked(SharedKeys))


def test_an_additive_mask_is_ignored_there_too():
    report = diagnose(shared_keys(), some_x(), num_heads=HEADS, call=lambda m, x: m(x, additive(x)))
    check_only(report, "no-causal-mask", marked(SharedKeys))


# --- source 3: with rotary positions, and none of its last steps taken ---


class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("inv_freq", 10000.0 ** -(torch.arange(0, width, 2).float() / width), persistent=False)

    def forward(self, x, position_ids):
        angles = position_ids[..., None].to(x.dtype) * self.inv_freq.to(x.dtype)
        return torch.cat([angles, angles], dim=-1).cos(), torch.cat([angles, angles], dim=-1).sin()


def turned(t, cos, sin):
    first, second = t.chunk(2, dim=-1)
    return t * cos[:, None] + torch.cat([-second, first], dim=-1) * sin[:, None]


class ReturnsNothing(nn.Module):
    """Reads neither mask nor positions, leaves out the output projection and forgets to return."""

    def __init__(self, hidden_size, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, hidden_size // num_heads
        self.q_proj, self.k_proj = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.v_proj, self.o_proj = nn.Linear(hidden_size, hidden_size), nn.Linear(hidden_size, hidden_size)
        self.rotary_emb = Rotary(self.head_dim)  # rotary

    def parts(self, x):
        shape = (x.shape[0], x.shape[1], self.num_heads, self.head_dim)
        return (part(x).view(shape).transpose(1, 2) for part in (self.q_proj, self.k_proj, self.v_proj))

    def forward(self, hidden_states, attention_mask=None, position_ids=None):
        q, k, v = self.parts(hidden_states)
        weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        output = torch.matmul(weights, v).transpose(1, 2)
        output = output.reshape(hidden_states.shape)  # return


class Returns(ReturnsNothing):
    def forward(self, hidden_states, attention_mask=None, position_ids=None):
        q, k, v = self.parts(hidden_states)
        weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)  # rotary
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)  # mask
        output = torch.matmul(weights, v).transpose(1, 2)
        output = output.reshape(hidden_states.shape)
        return output  # projection


class NoMask(ReturnsNothing):
    def forward(self, hidden_states, attention_mask=None, position_ids=None):
        q, k, v = self.parts(hidden_states)
        cos, sin = self.rotary_emb(v, position_ids)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim)
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)  # mask
        output = torch.matmul(weights, v).transpose(1, 2)
        return self.o_proj(output.reshape(hidden_states.shape))


class NoRotary(ReturnsNothing):
    def forward(self, hidden_states, attention_mask=None, position_ids=None):
        q, k, v = self.parts(hidden_states)
        weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim) + attention_mask  # rotary
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        output = torch.matmul(weights, v).transpose(1, 2)
        return self.o_proj(output.reshape(hidden_states.shape))


class NoOutputProjection(ReturnsNothing):
    def forward(self, hidden_states, attention_mask=None, position_ids=None):
        q, k, v = self.parts(hidden_states)
        cos, sin = self.rotary_emb(v, position_ids)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim) + attention_mask
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        output = torch.matmul(weights, v).transpose(1, 2)
        output = output.reshape(hidden_states.shape)
        return output  # projection


class AllMended(ReturnsNothing):
    def forward(self, hidden_states, attention_mask=None, position_ids=None):
        q, k, v = self.parts(hidden_states)
        cos, sin = self.rotary_emb(v, position_ids)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        weights = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.head_dim) + attention_mask
        weights = F.softmax(weights, dim=-1, dtype=torch.float32).to(q.dtype)
        output = torch.matmul(weights, v).transpose(1, 2)
        return self.o_proj(output.reshape(hidden_states.shape))


def with_mask_and_positions(module, x):
    places = torch.arange(x.shape[1], device=x.device)[None]
    return module(x, attention_mask=additive(x)[None, None], position_ids=places)


def examined(kind):
    return diagnose(kind(18, HEADS), some_x(width=18), num_heads=HEADS, call=with_mask_and_positions)


@pytest.mark.slow
def test_the_fourth_source_mended_is_attention():
    assert examined(AllMended).ok


def test_a_forgotten_return():
    check_only(examined(ReturnsNothing), "returns-none", marked(ReturnsNothing, "return"))
    alone = diagnose(ReturnsNothing(18, HEADS), some_x(width=18))
    check_only(alone, "returns-none", marked(ReturnsNothing, "return"))


def test_with_a_return_the_other_three_are_found():
    lines = found(examined(Returns))
    assert set(lines) == {"no-causal-mask", "rotary-unused", "output-projection-missing"}
    assert lines["no-causal-mask"] in marked(Returns, "mask")
    assert lines["output-projection-missing"] in marked(Returns, "projection")
    assert lines["rotary-unused"] in marked(Returns, "rotary") | marked(ReturnsNothing, "rotary")


def test_mended_one_by_one():
    check_only(examined(NoMask), "no-causal-mask", marked(NoMask, "mask"))
    rotary = marked(NoRotary, "rotary") | marked(ReturnsNothing, "rotary")
    check_only(examined(NoRotary), "rotary-unused", rotary)
    check_only(examined(NoOutputProjection), "output-projection-missing", marked(NoOutputProjection, "projection"))


# --- source 4: two heads by hand ---


class ReusedWeights(nn.Module):
    """Each head works its own scores out and then masks and softens those of the single head before it."""

    def __init__(self, d_in, head_size):
        super().__init__()
        self.root = math.sqrt(head_size)
        for name in ("", "_1", "_2"):
            for part in "qkv":
                setattr(self, f"{part}_proj{name}", nn.Parameter(torch.randn(head_size, d_in) / math.sqrt(d_in)))
        self.multi_head_proj = nn.Parameter(torch.randn(d_in, 2 * head_size) / math.sqrt(2 * head_size))

    def forward(self, x):
        tril = torch.tril(torch.ones(x.shape[1], x.shape[1], device=x.device))
        attn = (x @ self.q_proj.T) @ (x @ self.k_proj.T).transpose(1, 2) / self.root
        attn = attn.masked_fill(tril == 0, float("-inf"))
        attn = F.softmax(attn, dim=-1)
        attn_1 = (x @ self.q_proj_1.T) @ (x @ self.k_proj_1.T).transpose(1, 2) / self.root
        attn_1 = attn.masked_fill(tril == 0, float("-inf"))  # reused
        attn_1 = F.softmax(attn_1, dim=-1)  # softmax
        out_1 = attn_1 @ (x @ self.v_proj_1.T)
        attn_2 = (x @ self.q_proj_2.T) @ (x @ self.k_proj_2.T).transpose(1, 2) / self.root
        attn_2 = attn.masked_fill(tril == 0, float("-inf"))  # reused
        attn_2 = F.softmax(attn_2, dim=-1)  # softmax
        out_2 = attn_2 @ (x @ self.v_proj_2.T)
        return torch.cat([out_1, out_2], dim=-1) @ self.multi_head_proj.T


class OwnWeights(ReusedWeights):
    def forward(self, x):
        tril = torch.tril(torch.ones(x.shape[1], x.shape[1], device=x.device))
        attn_1 = (x @ self.q_proj_1.T) @ (x @ self.k_proj_1.T).transpose(1, 2) / self.root
        attn_1 = F.softmax(attn_1.masked_fill(tril == 0, float("-inf")), dim=-1)
        attn_2 = (x @ self.q_proj_2.T) @ (x @ self.k_proj_2.T).transpose(1, 2) / self.root
        attn_2 = F.softmax(attn_2.masked_fill(tril == 0, float("-inf")), dim=-1)
        out_1, out_2 = attn_1 @ (x @ self.v_proj_1.T), attn_2 @ (x @ self.v_proj_2.T)
        return torch.cat([out_1, out_2], dim=-1) @ self.multi_head_proj.T


@pytest.mark.slow
def test_two_heads_by_hand_are_attention():
    assert diagnose(OwnWeights(D_IN, HEAD_DIM), some_x(), num_heads=2).ok


def test_two_heads_that_reuse_the_weights_of_a_third():
    lines = found(diagnose(ReusedWeights(D_IN, HEAD_DIM), some_x(), num_heads=2))
    assert set(lines) == {"heads-share-scores", "double-softmax"}
    assert lines["double-softmax"] in marked(ReusedWeights, "softmax")
    assert lines["heads-share-scores"] in marked(ReusedWeights, "reused")


def weights_of_a_notebook(dtype):
    generator = torch.Generator().manual_seed(2)
    shapes = [(HEAD_DIM, D_IN)] * 6 + [(D_IN, 2 * HEAD_DIM)]
    return [torch.randn(*shape, generator=generator, dtype=dtype) / math.sqrt(shape[-1]) for shape in shapes]


def two_heads(x, attn, weights):
    """The cell as it was published: `attn` was left behind by the cell above, which had another x."""
    q_proj_1, k_proj_1, v_proj_1, q_proj_2, k_proj_2, v_proj_2, multi_head_proj = weights
    tril = torch.tril(torch.ones(x.shape[1], x.shape[1]))
    attn_1 = (x @ q_proj_1.T) @ (x @ k_proj_1.T).transpose(1, 2) / math.sqrt(HEAD_DIM)  # stale
    attn_1 = attn.masked_fill(tril == 0, float("-inf"))  # stale
    attn_1 = F.softmax(attn_1, dim=-1)  # stale
    out_1 = attn_1 @ (x @ v_proj_1.T)
    attn_2 = (x @ q_proj_2.T) @ (x @ k_proj_2.T).transpose(1, 2) / math.sqrt(HEAD_DIM)  # stale
    attn_2 = attn.masked_fill(tril == 0, float("-inf"))  # stale
    attn_2 = F.softmax(attn_2, dim=-1)  # stale
    out_2 = attn_2 @ (x @ v_proj_2.T)
    return torch.cat([out_1, out_2], dim=-1) @ multi_head_proj.T


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_weights_that_another_cell_left_behind(dtype):
    """Whatever it is called, the report must say that the scores of the two heads are never used."""
    weights = weights_of_a_notebook(dtype)
    other = some_x(width=TOKENS).to(dtype)
    attn = other.masked_fill(hidden_from(other).bool(), -torch.inf).softmax(dim=-1)
    report = diagnose(lambda x: two_heads(x, attn, weights), some_x().to(dtype), num_heads=2)
    assert {"heads-share-scores", "double-softmax", "mask-discarded", "weights-not-applied", None} & set(
        report.mistakes
    )
    assert report.findings[0].where in marked(two_heads, "stale"), report
