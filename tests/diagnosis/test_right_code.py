"""Right code of unusual designs is not accused, and the real mistake beside it still is."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import flex_attention

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(8)

BATCH, TOKENS, HEADS, HEAD_DIM = 2, 5, 3, 4
D_IN = HEADS * HEAD_DIM
X = torch.randn(BATCH, TOKENS, D_IN, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    """Projections around `attend`, which gets and returns (batch, head, token, head_dim)."""

    def __init__(self, **told):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.out = nn.Linear(D_IN, 3 * D_IN), nn.Linear(D_IN, D_IN)
        vars(self).update(told)

    def forward(self, x, **given):
        parts = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out(self.attend(*parts, **given).transpose(1, 2).flatten(2))


def later(scores):
    """Bool (query, key), True = must not attend."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


def weights_of(scores):
    return scores.masked_fill(later(scores), -torch.inf).softmax(-1)


def mistakes(code, **options):
    return diagnose(code, X, num_heads=HEADS, **options).mistakes


# --- dtypes, as the code behaves in 16 bits ---


class InFloat32(Base):
    cast_back = True

    def attend(self, q, k, v):
        turn = torch.arange(q.shape[2], device=q.device).float()[:, None] * torch.tensor([1.0, 0.1], device=q.device)
        q, k = (self.rotated(part.float(), turn).to(part.dtype) for part in (q, k))
        weights = F.softmax((q @ k.mT / 2).masked_fill(later(q @ k.mT), -torch.inf), -1, dtype=torch.float32)
        return (weights.to(v.dtype) if self.cast_back else weights) @ v

    def rotated(self, part, turn):
        one, other = part.chunk(2, -1)
        return torch.cat([one * turn.cos() - other * turn.sin(), one * turn.sin() + other * turn.cos()], -1)


def test_a_rotation_in_float32_that_is_cast_back_is_right_and_without_the_cast_it_is_not():
    report = diagnose(InFloat32(), X, num_heads=HEADS)
    assert report.ok and "computes in float32, as is right in 16 bits" in report.remarks[0], report
    assert mistakes(InFloat32(cast_back=False)) == ("dtype-pinned",)


class ScaledAfterRotation(InFloat32):
    """Each column of rotated queries and keys has a learned scale, which a constant multiplies first, as in nGPT."""

    def __init__(self):
        super().__init__()
        self.scales = nn.Parameter(torch.rand(HEAD_DIM) + 0.5)

    def rotated(self, part, turn):
        return super().rotated(part, turn) * (self.scales * 2.0).view(1, 1, 1, HEAD_DIM)


def test_columns_that_are_scaled_after_a_rotation_are_no_wrong_turn():
    assert "rotary-wrong-turn" not in mistakes(ScaledAfterRotation())


class Turning(nn.Module):
    """Turns by tables of one dtype."""

    def __init__(self):
        super().__init__()
        turn = torch.outer(torch.arange(TOKENS), torch.tensor([1.0, 0.1])).repeat(1, 2)
        self.register_buffer("cos", turn.cos())
        self.register_buffer("sin", turn.sin())

    def forward(self, part):
        one, other = part.chunk(2, -1)
        return part * self.cos + torch.cat([-other, one], -1) * self.sin


class TurnedBy(Base):
    def attend(self, q, k, v, turning):
        q, k = turning(q), turning(k)
        return weights_of(q @ k.mT / 2) @ v


def test_the_tables_of_a_module_that_call_gives_are_no_part_of_the_code():
    turning = Turning()
    report = diagnose(TurnedBy(), X, num_heads=HEADS, lengths=[TOKENS], call=lambda code, x: code(x, turning=turning))
    assert report.ok and any("`call` makes a tensor of another dtype" in one for one in report.remarks), report


class RefusesFloat64(Base):
    def attend(self, q, k, v):
        scores = q.to(torch.float32) @ k.mT.to(torch.float32) * self.scale
        wide = v.to(torch.float32) if v.dtype in (torch.bfloat16, torch.float16) else v  # what float64 was forgotten in
        return (weights_of(scores) @ wide).to(q.dtype)


def test_a_run_that_fails_in_float64_alone_does_not_stop_the_examination():
    report = diagnose(RefusesFloat64(scale=0.5), X, num_heads=HEADS)
    assert report.ok, report
    assert mistakes(RefusesFloat64(scale=0.25)) == ("wrong-scale",)


class KeepsFloat32(Base):
    """Its caches are plain attributes, which `module.to(dtype)` leaves in float32."""

    def __init__(self, **told):
        super().__init__(**told)
        self.caches = {name: torch.zeros(8, HEADS, 16, HEAD_DIM) for name in ("k", "v")}
        self.keys = self.caches["k"]

    def attend(self, q, k, v):
        rows, count = k.shape[0], k.shape[2]
        for name, part in (("k", k), ("v", v)):
            self.caches[name][:rows, :, :count] = part
        scores = q @ self.keys[:rows, :, :count].mT * self.scale
        return weights_of(scores) @ self.caches["v"][:rows, :, :count]


def test_kept_tensors_of_float32_do_not_stop_the_examination():
    found = mistakes(KeepsFloat32(scale=0.5))
    assert set(found) == {"dtype-pinned", "device-pinned"}, "a cache in one dtype, on one device"
    assert set(mistakes(KeepsFloat32(scale=0.25))) == {"wrong-scale", *found}


class KeepFloat32(nn.Module):
    """A model of ids, whose second attention has a scale of its own."""

    def __init__(self, scale):
        super().__init__()
        self.embed, self.layers = (
            nn.Embedding(9, D_IN),
            nn.Sequential(KeepsFloat32(scale=0.5), KeepsFloat32(scale=scale)),
        )

    def forward(self, ids):
        return self.layers(self.embed(ids))


def test_kept_tensors_of_float32_do_not_stop_the_examination_of_a_model():
    report = diagnose(KeepFloat32(0.25), torch.tensor([[1, 2, 3, 4, 5, 6], [7, 8, 1, 3, 2, 4]]), num_heads=HEADS)
    assert set(report.mistakes) == {"dtype-pinned", "device-pinned", "wrong-scale"}, report
    assert not any(one.missing for one in report.attentions) and len(report.attentions) == 2


class Lowest(Base):
    def attend(self, q, k, v):
        return (q @ k.mT / 2).masked_fill(later(q @ k.mT), -1e9).softmax(-1) @ v


def test_a_number_that_float16_does_not_hold_is_a_remark():
    report = diagnose(Lowest(), X, num_heads=HEADS)
    assert report.ok and any("does not fit" in remark for remark in report.remarks), report


# --- copies ---


class HoldsLambda(nn.Module):
    """A block whose lambda reads the modules of the block that it was made for, as minGPT's does."""

    def __init__(self, causal=True):
        super().__init__()
        self.attention = Explicit(causal=causal)
        self.mlp = nn.ModuleDict({"fc": nn.Linear(D_IN, 2 * D_IN), "proj": nn.Linear(2 * D_IN, D_IN)})
        layers = self.mlp
        self.feed = lambda x: layers["proj"](F.gelu(layers.fc(x)) if hasattr(layers, "fc") else layers["fc"](x))

    def forward(self, x):
        x = x + self.attention(x)
        return x + self.feed(x)


class Explicit(Base):
    causal = True

    def attend(self, q, k, v):
        scores = q @ k.mT / 2
        return (weights_of(scores) if self.causal else scores.softmax(-1)) @ v


def test_a_lambda_over_the_original_module_reads_the_copy():
    block = HoldsLambda()
    before = {name: one.clone() for name, one in block.state_dict().items()}
    assert diagnose(block, X, num_heads=HEADS).ok
    assert all(
        torch.equal(one, before[name]) and one.dtype == torch.float32 for name, one in block.state_dict().items()
    )
    assert mistakes(HoldsLambda(causal=False)) == ("no-causal-mask",)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("causal", [True, False])
def test_quantised_linears_are_examined_by_what_they_stand_for(causal):
    quantised = torch.ao.quantization.quantize_dynamic(Explicit(causal=causal), {nn.Linear}, dtype=torch.qint8)
    assert mistakes(quantised) == (() if causal else ("no-causal-mask",))


# --- kernels ---


class Fused(Base):
    causal, scale = True, None

    def attend(self, q, k, v):
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale)


class Flexible(Base):
    causal, scale = True, None

    def attend(self, q, k, v):
        def hide(score, batch, head, query, key):
            return torch.where(query >= key, score, -torch.inf)

        return flex_attention(q, k, v, score_mod=hide if self.causal else None, scale=self.scale)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [Fused, Flexible])
def test_fused_kernels_are_examined(kind):
    assert mistakes(kind()) == ()
    assert mistakes(kind(causal=False)) == ("no-causal-mask",)
    assert mistakes(kind(scale=0.25)) == ("wrong-scale",)


# --- masks that are offered ---


class TakesMask(Base):
    def attend(self, q, k, v, mask=None):
        scores = q @ k.mT / 2
        return (scores if mask is None else self.hidden(scores, mask)).softmax(-1) @ v


MASKED = {
    "True = may attend": lambda scores, mask: scores.masked_fill(~mask, -torch.inf),
    "True = must not": lambda scores, mask: scores.masked_fill(mask, -torch.inf),
    "added": lambda scores, mask: scores + mask,
    "(batch, 1, query, key)": lambda scores, mask: scores.masked_fill(mask[:, [0] * HEADS] == 0, -torch.inf),
    "(batch, query, key)": lambda scores, mask: scores.masked_fill(mask[:, None].bool(), -torch.inf),
}


class Optional(TakesMask):
    def forward(self, x, attention_mask=None):
        return super().forward(x, mask=attention_mask)


@pytest.mark.parametrize("hidden", MASKED.values(), ids=MASKED.keys())
def test_an_optional_mask_is_offered_before_anything_is_said(hidden):
    report = diagnose(Optional(hidden=hidden), X, num_heads=HEADS)
    assert report.ok, report
    assert report.remarks[0].startswith("it is unmasked unless the caller gives `attention_mask`")
    assert mistakes(Optional(hidden=lambda scores, mask: scores)) == ("no-causal-mask",)


class Flag(Base):
    def forward(self, x, is_causal=False):
        return super().forward(x, is_causal=is_causal)

    def attend(self, q, k, v, is_causal):
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def test_a_flag_is_offered():
    report = diagnose(Flag(), X, num_heads=HEADS)
    assert report.ok and "`is_causal`" in report.remarks[0], report


# --- what is no softmax attention over tokens ---


class Linear(Base):
    def attend(self, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return (q @ (k.mT @ v)) / (q @ k.sum(2, keepdim=True).mT)


class CausalLinear(Base):
    def attend(self, q, k, v):
        states = (k.exp()[..., :, None] * v[..., None, :]).cumsum(2)
        return torch.einsum("bhtd,bhtde->bhte", q.exp(), states)


class Recurrent(Base):
    def attend(self, q, k, v):
        state, rows = torch.zeros(len(q), HEADS, HEAD_DIM, HEAD_DIM).to(q), []
        for t in range(q.shape[2]):
            state = 0.9 * state + k[:, :, t, :, None] * v[:, :, t, None, :]
            rows.append((q[:, :, t, None, :] @ state)[:, :, 0])
        return torch.stack(rows, 2)


class Channel(Base):
    def attend(self, q, k, v):
        weights = (F.normalize(q, dim=2).mT @ F.normalize(k, dim=2)).softmax(-1)
        return (weights @ v.mT).mT


class Distance(Base):
    def attend(self, q, k, v):
        return weights_of(-torch.cdist(q, k)) @ v


class WrittenDistance(Base):
    def attend(self, q, k, v):
        return weights_of(-(q[:, :, :, None] - k[:, :, None]).pow(2).sum(-1)) @ v


class Additive(Base):
    """Scores of a small network that gets the sum of a query and a key."""

    weigh = staticmethod(weights_of)

    def __init__(self, **told):
        super().__init__(**told)
        self.score = nn.Linear(HEAD_DIM, 1)

    def attend(self, q, k, v):
        scores = self.score((q[:, :, :, None] + k[:, :, None]).tanh())[..., 0]
        return self.weigh(scores) @ v


class Paired(Additive):
    """The same of the two side by side, as in graph attention."""

    def __init__(self, **told):
        super().__init__(**told)
        self.score = nn.Linear(2 * HEAD_DIM, 1)

    def attend(self, q, k, v):
        pairs = torch.broadcast_tensors(q[:, :, :, None], k[:, :, None])
        return self.weigh(F.leaky_relu(self.score(torch.cat(pairs, -1)))[..., 0]) @ v


class HeadsLast(Paired):
    """The same with scores (query, key, head), sample by sample, as graphs have them."""

    def attend(self, q, k, v):
        return torch.stack([self.of_graph(*parts) for parts in zip(q, k, v, strict=True)])

    def of_graph(self, q, k, v):
        pairs = torch.broadcast_tensors(q[:, :, None], k[:, None])
        scores = F.leaky_relu(self.score(torch.cat(pairs, -1)))[..., 0].movedim(0, -1)
        hidden = later(scores[..., 0])[..., None]
        return torch.einsum("qkh,hkd->hqd", scores.masked_fill(hidden, -torch.inf).softmax(1), v)


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Additive(), Additive(weigh=lambda scores: scores.softmax(-1))

    def forward(self, x):
        return self.second(x + self.first(x))


@pytest.mark.parametrize("kind", [Additive, Paired, HeadsLast])
def test_additive_attention_is_judged_by_its_weights(kind):
    report = diagnose(kind(), X, num_heads=HEADS)
    assert report.ok, report
    assert report.verdict == "this is attention, nothing wrong was found; the scale of the scores was not judged."
    (said,) = report.not_judged
    assert said.startswith("this is additive attention: ") and "nor were projections" in said


@pytest.mark.parametrize(("weigh", "found"), [
    (lambda scores: scores.softmax(-1), "no-causal-mask"),
    (lambda scores: scores.masked_fill(later(scores), -1e9).softmax(-2), "softmax-wrong-axis"),
    (lambda scores: scores.masked_fill(later(scores), 0).softmax(-1), "mask-with-zero"),
    (lambda scores: scores.softmax(-1).masked_fill(later(scores), 0), "mask-after-softmax"),
    (lambda scores: scores.masked_fill(later(scores), -1e9).softmax(-1).mT, "weights-transposed"),
    (lambda scores: scores.masked_fill(later(scores), -1e9).softmax(-1).softmax(-1), "double-softmax"),
    (lambda scores: scores.masked_fill(later(scores).mT, -1e9).softmax(-1), "mask-transposed"),
])  # fmt: skip
@pytest.mark.parametrize("kind", [Additive, Paired])
def test_mistakes_in_the_weights_of_additive_attention_are_named(kind, weigh, found):
    report = diagnose(kind(weigh=weigh), X, num_heads=HEADS)
    assert report.mistakes == (found,) and report.exit_status == 1, report


def test_the_heads_of_additive_attention_may_be_averaged():
    class Averaged(Additive):
        def attend(self, q, k, v):
            return super().attend(q, k, v).mean(1, keepdim=True).expand(v.shape)

    report = diagnose(Averaged(), X, num_heads=HEADS)
    assert report.ok and any("averaged, as in the last layer of graph attention" in one for one in report.remarks)


def test_of_several_layers_of_additive_attention_none_is_cleared():
    report = diagnose(TwoLayers(), X)
    assert report.exit_status == 1 and "output of token 0 moves when token" in str(report), report
    report = diagnose(TwoLayers(), X, causal=False)
    assert report.exit_status == 2 and "additive attention" in str(report), report


class OfChannels(Base):
    """A weight for every channel of a pair of tokens, as in Point Transformer and DiGress."""

    scores = staticmethod(lambda q, k: q * k + 1)

    def attend(self, q, k, v):
        return (self.scores(q[:, :, :, None], k[:, :, None]).softmax(3) * v[:, :, None]).sum(3)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(Linear, "linear attention"), (CausalLinear, "linear attention"), (Recurrent, "linear attention"),
     (Channel, "channel attention"), (Distance, "attention by distance"),
     (WrittenDistance, "attention by distance"), (OfChannels, "vector attention"),
     (partial(OfChannels, scores=lambda q, k: (q - k).relu()), "vector attention")],
)  # fmt: skip
def test_what_is_no_softmax_attention_is_called_by_its_name(kind, name):
    report = diagnose(kind(), X, num_heads=HEADS)
    (finding,) = report.findings
    assert finding.mistake is None and finding.title.startswith(f"It could not be examined: this is {name}: "), report
    assert report.verdict == "it could not be examined."


class Padded(Base):
    """Attention of one token more, as where the number of tokens must fill a grid; its row is cut off again."""

    weigh = staticmethod(weights_of)

    def attend(self, q, k, v):
        q, k, v = (F.pad(one, (0, 0, 0, 1)) for one in (q, k, v))
        return (self.weigh(q @ k.mT / 2) @ v)[:, :, :-1]


def test_the_row_of_padding_that_is_cut_off_needs_no_query():
    assert mistakes(Padded()) == ()
    assert mistakes(Padded(weigh=lambda scores: scores.softmax(-1))) == ("no-causal-mask",)
    (finding,) = diagnose(Padded(weigh=lambda s: weights_of(s * 2)), X, num_heads=HEADS).findings
    assert finding.mistake == "missing-scale", finding


# --- options where intent can't be known ---


class Sigmoid(Base):
    def attend(self, q, k, v):
        return (q @ k.mT / 2 - math.log(TOKENS)).masked_fill(later(q @ k.mT), -torch.inf).sigmoid() @ v


def test_weights_that_do_not_sum_to_one_on_purpose():
    assert mistakes(Sigmoid(), normalised=False) == ()
    (finding,) = diagnose(Sigmoid(), X, num_heads=HEADS).findings
    assert finding.mistake == "no-softmax" and "this is sigmoid attention" in finding.evidence


def test_a_scale_of_ones_own():
    assert mistakes(Fused(scale=1.0), scale=1.0) == () and mistakes(Fused(scale=1.0)) == ("missing-scale",)
    assert mistakes(Fused(), scale=1.0) == ("wrong-scale",) and mistakes(Fused(scale=0.3), scale=0.3) == ()


class Configured(Fused):
    def __init__(self, config):
        super().__init__()
        self.scaling = config.attention_multiplier

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scaling * self.again)

    again = 1.0


class Config:
    attention_multiplier = 0.07


def test_a_multiplier_of_a_configuration_is_a_remark():
    report = diagnose(Configured(Config), X, num_heads=HEADS)
    assert report.ok and "`self.scaling = config.attention_multiplier`" in report.remarks[0], report
    twice = Configured(Config)
    twice.again = 0.07
    assert mistakes(twice) == ("wrong-scale",)


class Windowed(Base):
    def attend(self, q, k, v):
        scores = q @ k.mT / 2
        hidden = later(scores) | ~later(scores).new_ones(scores.shape[-2:]).triu(1 - self.width)
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v


def test_a_window():
    assert mistakes(Windowed(width=3), window=3) == ()
    for width in (2, 4, TOKENS):
        (finding,) = diagnose(Windowed(width=width), X, num_heads=HEADS, window=3).findings
        assert "window=3 was given" in finding.evidence
        named = width in (2, 4)
        assert finding.mistake == ("window-off-by-one" if named else None), finding
        assert named or "another width" in finding.title


class OfOneLength(Base):
    def __init__(self, tokens=TOKENS, **told):
        super().__init__(**told)
        self.bias = nn.Parameter(torch.randn(HEADS, tokens, tokens))

    def attend(self, q, k, v):
        return weights_of(q @ k.mT / 2 + self.bias) @ v


def test_the_only_lengths_that_code_takes():
    assert mistakes(OfOneLength(), lengths=[TOKENS]) == ()
    assert "fixed-length" in mistakes(OfOneLength(), lengths=[TOKENS, TOKENS + 1])


REFUSED = [
    ({"scale": 0}, ValueError, "scale must be a number above 0, or None for head_dim ** -0.5, got 0."),
    ({"scale": True}, ValueError, "scale must be a number above 0, or None for head_dim ** -0.5, got True."),
    ({"window": 0}, ValueError, "window must be an integer of at least 1, the query's own token included, got 0."),
    ({"lengths": 4}, ValueError, "lengths must be numbers of tokens that the code takes, such as [4, 16], got 4."),
    ({"lengths": [4]}, ValueError, "x has 5 tokens, which is not one of lengths=[4]: give such an x."),
    ({"normalised": 1}, TypeError, "normalised must be True or False, got 1."),
    ({"context": 3}, TypeError, "context must be a floating-point tensor (batch, token, width), got int."),
    (
        {"context": torch.ones(2, 7).long()},
        TypeError,
        "got torch.int64: an encoder-decoder of ids is examined by `scan`",
    ),
    ({"context": X[:1]}, ValueError, "context must have as many axes and samples as x, (2, 5, 12), got the shape"),
    ({"expect": 3}, TypeError, "expect must be a module or a function that computes what the code should, got int."),
    ({"expect": Base}, TypeError, "what the code should, got the class Base."),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_options_that_say_nothing_are_refused(options, error, words):
    with pytest.raises(error) as raised:
        diagnose(Explicit(), X, **options)
    assert words in str(raised.value)


# --- cross-attention ---


class Cross(nn.Module):
    """Queries of x, keys and values of a context of another width."""

    def __init__(self, split=True, scale=None):
        super().__init__()
        torch.manual_seed(2)
        self.q, self.k, self.v = nn.Linear(D_IN, 21), nn.Linear(10, 21), nn.Linear(10, 21)
        self.out, self.split, self.scale = nn.Linear(21, D_IN), split, scale

    def heads(self, part):
        split = part.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        return split if self.split else part.reshape(split.shape)

    def forward(self, x, context=None, mask=None):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(context)), self.heads(self.v(context))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=self.scale)
        return self.out(out.transpose(1, 2).flatten(2))


def context_of(count):
    return torch.randn(BATCH, count, 10, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("count", [1, 3, TOKENS, TOKENS + 1, 2 * TOKENS, 11])
def test_a_context_of_its_own_length(count):
    assert mistakes(Cross(), context=context_of(count)) == ()
    if count > 1:
        assert mistakes(Cross(scale=1.0), context=context_of(count)) == ("missing-scale",)
    if count > 3:
        assert mistakes(Cross(split=False), context=context_of(count)) == ("split-without-transpose",)


def test_one_latent_as_a_query_and_padding_in_the_context():
    context, keep = context_of(7), torch.ones(BATCH, 7, dtype=torch.bool)
    keep[1, 4:] = False
    assert diagnose(Cross(), X[:, :1], context=context, num_heads=HEADS).ok
    masked = {"call": lambda m, x, c: m(x, c, mask=keep[: len(x), None, None]), "context": context, "keep": keep}
    assert mistakes(Cross(), **masked) == ()
    (finding,) = diagnose(Cross(), X, context=context, keep=keep, num_heads=HEADS).findings
    assert "`keep` hides" in finding.title
    with pytest.raises(
        ValueError, match=r"keep must broadcast to \(batch, head, query, context key\) = \(2, 1, 5, 7\)"
    ):
        diagnose(Cross(), X, context=context, keep=torch.ones(5, 3, dtype=torch.bool))


# --- a reference ---


class Rotated(InFloat32):
    sign = 1.0

    def rotated(self, part, turn):
        return super().rotated(part, self.sign * turn)


def test_a_reference_finds_what_no_rule_knows():
    assert mistakes(Rotated(sign=-1.0)) == (), "no rule knows it"
    (finding,) = diagnose(Rotated(sign=-1.0), X, expect=Rotated()).findings
    assert "that `expect` never computes" in finding.evidence and "test_right_code.py" in finding.where
    assert finding.title == "It differs from attention in this way: it does not compute what `expect` computes."


def test_a_reference_that_agrees_settles_what_may_be_meant():
    report = diagnose(Fused(scale=1.0), X, expect=Explicit2())
    assert report.ok and "it computes what `expect` computes" in report.remarks, report


class Explicit2(Base):
    """The same without a kernel, and without a scale."""

    def attend(self, q, k, v):
        return weights_of(q @ k.mT) @ v


def test_a_reference_that_can_not_be_run():
    (finding,) = diagnose(Explicit(), X, expect=nn.Linear(3, 4)).findings
    assert finding.title == "It could not be examined: `expect` can't be run on this x."
    (finding,) = diagnose(Explicit(), X, expect=lambda x: x[:, :2]).findings
    assert "its output has the shape (2, 5, 12), and that of `expect` (2, 2, 12)" in finding.title


# --- names of attributes, and what `call` is for ---


class Narrowing(nn.Module):
    """Eight heads' results are wider than the tokens; `d_out` is that width, and every cap is switched off."""

    def __init__(self, d_in, num_heads, head_dim):
        super().__init__()
        self.num_heads, self.d_out = num_heads, num_heads * head_dim
        self.softcap, self.logit_cap, self.soft_cap, self.attn_softcap = 0.0, 0, None, False
        self.qkv = nn.Linear(d_in, 3 * self.d_out)
        self.out_proj = nn.Linear(self.d_out, d_in)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.out_proj((weights_of(q @ k.mT * q.shape[-1] ** -0.5) @ v).transpose(1, 2).flatten(2))


def test_the_name_of_an_attribute_accuses_nobody():
    assert diagnose(Narrowing(D_IN, 5, 6), X, num_heads=5).ok


class WantsPair(Base):
    def forward(self, x, positions=None):
        cos, sin = positions
        return x * cos + sin


class WantsKeywords(Base):
    def forward(self, *, query):
        return query


@pytest.mark.parametrize(
    ("kind", "words"),
    [(WantsPair, "cannot unpack non-iterable NoneType object"), (WantsKeywords, "takes 1 positional argument but 2")],
)
def test_code_that_is_called_otherwise_is_told_about_call(kind, words):
    (finding,) = diagnose(kind(), X).findings
    assert words in finding.evidence and "give `call`, a function of (code, x)" in finding.evidence


# --- designs ---


class SetToZero(Base):
    """The rows of padding are set to 0 after softmax, as queries."""

    def forward(self, x, keep=None):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        hidden = later(q @ k.mT) | ~keep[:, None, None]
        weights = (q @ k.mT / 2).masked_fill(hidden, -torch.inf).softmax(-1)
        weights = weights.masked_fill(~keep[:, None, :, None], 0.0)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


def test_rows_of_padding_may_be_set_to_zero():
    keep = torch.ones(BATCH, TOKENS, dtype=torch.bool)
    keep[1, 3:] = False
    assert mistakes(SetToZero(), keep=keep, call=lambda m, x: m(x, keep[: len(x)])) == ()


class RelativeTable(Base):
    """A table of biases by distance, for one window of tokens, as in Swin and BEiT."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(2 * TOKENS - 1, HEADS))
        places = torch.arange(TOKENS)
        self.register_buffer("index", places[:, None] - places + TOKENS - 1)

    def attend(self, q, k, v):
        bias = self.table[self.index.view(-1)].view(TOKENS, TOKENS, -1).permute(2, 0, 1)
        return weights_of(q @ k.mT / 2 + bias) @ v


def test_a_learned_bias_for_each_pair_fixes_the_length_on_purpose():
    report = diagnose(RelativeTable(), X, num_heads=HEADS)
    assert report.ok and report.remarks[-1].startswith("it takes 5 tokens only, because `table`"), report
    assert diagnose(RelativeTable(), X, num_heads=HEADS, lengths=[TOKENS]).ok


class ZeroKey(Base):
    def attend(self, q, k, v):
        k, v = (F.pad(part, (0, 0, 1, 0)) for part in (k, v))
        return (q @ k.mT * self.scale).masked_fill(F.pad(later(q @ q.mT), (1, 0)), -torch.inf).softmax(-1) @ v


def test_a_zero_key_in_front():
    assert mistakes(ZeroKey(scale=0.5)) == ()
    assert mistakes(ZeroKey(scale=0.25)) == ("wrong-scale",)


class Narrow(nn.Module):
    """One small matrix for all heads, each of which has columns of x of its own; or columns that all heads share."""

    def __init__(self, own):
        super().__init__()
        self.parts, self.own = nn.ModuleList(nn.Linear(HEAD_DIM, HEAD_DIM, bias=False) for _ in range(3)), own
        self.out = nn.Linear(D_IN, D_IN)

    def forward(self, x):
        columns = x.unflatten(-1, (HEADS, HEAD_DIM))
        columns = columns if self.own else columns[:, :, :1].expand_as(columns)
        q, k, v = (part(columns).transpose(1, 2) for part in self.parts)
        return self.out((weights_of(q @ k.mT / 2) @ v).transpose(1, 2).flatten(2))


def test_heads_may_share_weights_if_they_read_columns_of_their_own():
    assert mistakes(Narrow(own=True)) == ()
    assert mistakes(Narrow(own=False))[0] == "heads-share-weights"


class Differential(nn.Module):
    """The weights of each head are a difference of two softmaxes, and a norm follows the value product."""

    def __init__(self, hides=True):
        super().__init__()
        torch.manual_seed(4)
        self.q, self.k, self.v = (nn.Linear(D_IN, 2 * D_IN) for _ in range(3))
        self.out, self.norm, self.factor = nn.Linear(2 * D_IN, D_IN), nn.LayerNorm(8), nn.Parameter(torch.tensor(0.3))
        self.hides = hides

    def forward(self, x):
        q, k = (part(x).unflatten(-1, (2 * HEADS, HEAD_DIM)).transpose(1, 2) for part in (self.q, self.k))
        v = self.v(x).unflatten(-1, (HEADS, 2 * HEAD_DIM)).transpose(1, 2)
        weights = (weights_of(q @ k.mT / 2) if self.hides else (q @ k.mT / 2).softmax(-1)).unflatten(1, (HEADS, 2))
        out = self.norm((weights[:, :, 0] - self.factor * weights[:, :, 1]) @ v)
        return self.out(out.transpose(1, 2).flatten(2))


def test_differential_attention():
    report = diagnose(Differential(), X)
    assert report.ok and report.remarks[0].startswith("this is differential attention"), report
    assert diagnose(Differential(hides=False), X).mistakes == ("no-causal-mask",)


class Saturated(Base):
    def attend(self, q, k, v):
        weights = (1e6 * torch.eye(q.shape[2], device=q.device, dtype=q.dtype) + q @ k.mT / 2).softmax(-1)
        return weights @ v if self.applied else v


def test_saturated_weights_are_told_from_weights_that_are_not_applied():
    (finding,) = diagnose(Saturated(applied=True), X, num_heads=HEADS).findings
    assert finding.mistake is None and "gives all its weight to one token" in finding.title
    assert "weights-not-applied" in mistakes(Saturated(applied=False))


class OwnContext(Cross):
    """A context as wide as x."""

    def __init__(self):
        super().__init__()
        self.k, self.v = nn.Linear(D_IN, 21), nn.Linear(D_IN, 21)


CONTEXTS = {
    "the first three": lambda x: x[:, :3],
    "the same for every x": lambda x: torch.ones(len(x), 7, D_IN).to(x),
}


@pytest.mark.parametrize("make", CONTEXTS.values(), ids=CONTEXTS.keys())
def test_a_context_that_call_makes_is_no_mistake_of_the_code(make):
    report = diagnose(OwnContext(), X, causal=False, call=lambda m, x: m(x, make(x)))
    (finding,) = report.findings
    assert report.exit_status == 2 and "give `context`" in finding.evidence, report


def test_a_context_with_the_mean_of_all_tokens_is_examined():
    report = diagnose(OwnContext(), X, causal=False, call=lambda m, x: m(x, torch.cat([x, x.mean(1, keepdim=True)], 1)))
    assert report.ok and f"a context of {TOKENS + 1}" in str(report), report


def test_a_context_with_every_token_twice():
    assert diagnose(OwnContext(), X, causal=False, call=lambda m, x: m(x, torch.cat([x, x.flip(1)], 1))).ok


class Latents(OwnContext):
    def __init__(self, count):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(count, D_IN))

    def forward(self, x):
        return super().forward(self.latents.expand(len(x), -1, -1), x)


@pytest.mark.parametrize("count", [3, TOKENS])
def test_learned_queries_are_examined(count):
    report = diagnose(Latents(count), X, causal=False)
    assert report.ok and f"{count} tokens and a context of {TOKENS}" in str(report), report


class MasterQuery(nn.Module):
    """A learned query of each head is compared with the keys, without a projection, and gives one row for all of x."""

    def __init__(self, scale=5**-0.5):
        super().__init__()
        self.scale = scale
        self.master, self.k = nn.Parameter(torch.randn(HEADS, 5)), nn.Linear(D_IN, HEADS * 5)

    def forward(self, x):
        keys = self.k(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        values = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        weights = (self.master[:, None] @ keys.mT * self.scale).softmax(-1)
        return (weights @ values).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(("scale", "found"), [(5**-0.5, ()), (1.0, ("missing-scale",))])
def test_a_learned_query_for_all_of_x_is_examined(scale, found):
    report = diagnose(MasterQuery(scale), torch.randn(2, 5, D_IN), causal=False)
    assert report.mistakes == found and report.exit_status == int(bool(found)), report


class Skipping(InFloat32):
    """A layer without positions, by a setting; or one in which they were forgotten."""

    use_rope, told = False, True

    def forward(self, x, angles=None):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.use_rope:
            q, k = self.rotated(q, angles), self.rotated(k, angles)
        return self.out((weights_of(q @ k.mT / 2) @ v).transpose(1, 2).flatten(2))


def test_a_layer_without_positions_by_a_setting():
    def call(module, x):
        turn = torch.arange(x.shape[1]).to(x)[:, None] * torch.tensor([1.0, 0.1]).to(x)
        turn.cos(), turn.sin()
        return module(x, turn)

    report = diagnose(Skipping(), X, num_heads=HEADS, call=call)
    assert report.ok and "`if self.use_rope`" in report.remarks[0], report


class NoLastProjection(Base):
    """Attention between the fields of a record: the heads' results go through a ReLU and no projection."""

    def __init__(self):
        super().__init__()
        del self.out

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return F.relu((weights_of(q @ k.mT / 2) @ v).transpose(1, 2).flatten(2))


def test_results_behind_a_relu_are_weighted_sums_before_it():
    code = NoLastProjection()
    with torch.no_grad():
        code.qkv.bias[-D_IN:] -= 0.5  # most results are below 0
    report = diagnose(code, X, num_heads=HEADS)
    assert report.ok, report


class RelativeValues(InFloat32):
    """Values that are rotated, so that a value counts by its distance once the results are rotated back."""

    times, back = 1, True

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        turn = torch.arange(x.shape[1]).to(x)[:, None] * torch.tensor([1.0, 0.1]).to(x)
        q, k = self.rotated(q, turn), self.rotated(k, turn)
        for _ in range(self.times):
            v = self.rotated(v, turn)
        results = weights_of(q @ k.mT / 2) @ v
        return self.out((self.rotated(results, -turn) if self.back else results).transpose(1, 2).flatten(2))


def test_values_that_are_rotated_and_rotated_back_are_right():
    report = diagnose(RelativeValues(), X, num_heads=HEADS)
    assert report.ok and any("rotated back" in remark for remark in report.remarks), report


@pytest.mark.parametrize("fault", [{"times": 2}, {"back": False}])
def test_values_that_are_not_rotated_back_as_far_are_found(fault):
    assert mistakes(RelativeValues(**fault)) == ("rotary-on-values",)


class TwoStreams(RelativeValues):
    """Two streams of tokens, each with projections of its own and positions from 0 on, see each other."""

    def __init__(self, **told):
        super().__init__(**told)
        self.second = nn.Linear(D_IN, self.qkv.out_features)

    def forward(self, x):
        streams = zip((self.qkv, self.second), x.split([2, x.shape[1] - 2], dim=1), strict=True)
        parts = [layer(one).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4) for layer, one in streams]
        q, k, v = torch.cat(parts, dim=3)
        places = torch.cat([torch.arange(2), torch.arange(x.shape[1] - 2)]).to(x)
        turn = places[:, None] * torch.tensor([1.0, 0.1]).to(x)
        q, k, v = (self.rotated(one, turn) for one in (q, k, v))
        results = (q @ k.mT / 2).softmax(-1) @ v
        return self.out((self.rotated(results, -turn) if self.back else results).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("back", "found"), [(True, ()), (False, ("rotary-on-values",))])
def test_rotated_values_of_two_streams_are_rotated_back(back, found):
    report = diagnose(TwoStreams(back=back), X, num_heads=HEADS, causal=False, lengths=[X.shape[1]])
    assert report.mistakes == found, report


class TableOfDistances(Base):
    """A bias by distance, whose indices are made where the table is, unless that is on no device (meta)."""

    pinned = False

    def __init__(self, **told):
        super().__init__(**told)
        self.table = nn.Embedding(64, HEADS)

    def attend(self, q, k, v):
        device = self.table.weight.device
        positions = torch.arange(q.shape[2], device=None if self.pinned or device.type == "meta" else device)
        bias = self.table((positions[:, None] - positions).abs()).permute(2, 0, 1)
        return weights_of(q @ k.mT * HEAD_DIM**-0.5 + bias) @ v


@pytest.mark.parametrize("pinned", [False, True])
def test_an_exception_for_the_meta_device_pins_nothing(pinned):
    assert mistakes(TableOfDistances(pinned=pinned)) == (("device-pinned",) if pinned else ())


class NormWithoutProjection(Base):
    """A layer whose heads' results, without a projection, are added to x and normed before the next one."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(D_IN), nn.Linear(D_IN, D_IN)
        del self.out

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = weights_of(q @ k.mT / 2)
        weights = weights.masked_fill(weights.isnan(), 0)  # rows that may see nothing
        x = self.norm((weights @ v).transpose(1, 2).flatten(2) + x)
        return x + self.mlp(x)


def test_results_behind_a_norm_are_weighted_sums_before_it():
    code = NormWithoutProjection()
    with torch.no_grad():
        code.qkv.weight.mul_(3)
        code.norm.weight.copy_(torch.linspace(-1, 2, D_IN))
    report = diagnose(code, X, num_heads=HEADS)
    assert report.ok, report


class Prompted(Base):
    """A model that embeds its ids piece by piece, with a cache from the first piece on."""

    def __init__(self, **told):
        super().__init__(**told)
        self.embed = nn.Embedding(31, D_IN)

    def forward(self, ids, cache):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.embed(ids)).chunk(3, -1))
        cache.append((k, v))
        k, v = (torch.cat(parts, dim=2) for parts in zip(*cache, strict=True))
        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).triu(1 + k.shape[2] - q.shape[2])
        scores = q @ k.mT / 2
        if self.leaks == "with both":
            return self.out(F.scaled_dot_product_attention(q, k, v, ~hidden, is_causal=True).transpose(1, 2).flatten(2))
        scores = scores if self.leaks else scores.masked_fill(hidden, -torch.inf)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(
    ("leaks", "found"), [(False, ()), (True, ("no-causal-mask",)), ("with both", ("is-causal-with-mask",))]
)
def test_ids_that_come_in_pieces_are_examined(leaks, found):
    def call(model, ids):
        cache = []
        return torch.cat([model(ids[:, :3], cache), *(model(one, cache) for one in ids[:, 3:].split(1, 1))], dim=1)

    report = diagnose(Prompted(leaks=leaks), torch.arange(12).view(2, 6), num_heads=HEADS, call=call)
    assert report.mistakes == found and report.exit_status < 2, report


class ComplexTable(Base):
    """Rotary positions as a buffer of complex numbers, which `module.to(torch.float64)` would make real."""

    def __init__(self, **told):
        super().__init__(**told)
        angles = torch.arange(16.0)[:, None] * torch.tensor([1.0, 0.1])
        self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles))

    def attend(self, q, k, v):
        q, k = self.turned(q), self.turned(k)
        return weights_of(q @ k.mT / 2) @ v

    def turned(self, part):
        pairs = torch.view_as_complex(part.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(pairs * self.turns[: part.shape[2]]).flatten(-2).type_as(part)


def test_a_complex_buffer_stays_complex():
    assert mistakes(ComplexTable()) == ()


class MeanOfGroups(nn.Module):
    """Four heads are trained, and each two of them get the mean of their keys and of their values."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.out = nn.Linear(D_IN, 3 * D_IN), nn.Linear(D_IN, D_IN)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        k, v = (part.unflatten(1, (2, 2)).mean(2).repeat_interleave(2, 1) for part in (k, v))
        return self.out((weights_of(q @ k.mT / 3**0.5) @ v).transpose(1, 2).flatten(2))


def test_means_of_heads_are_not_taken_for_one_head():
    report = diagnose(MeanOfGroups(), X, num_heads=4, num_kv_heads=2)
    assert report.mistakes == (), report


class OfSettings(Base):
    """Its last projection gets the dtype that its settings name, as the weights are made in."""

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        heads = weights_of(q @ k.mT / 2) @ v
        return self.out(heads.transpose(1, 2).flatten(2).to(self.settings["dtype"] if self.settings else torch.float32))


def test_a_dtype_that_the_settings_name_is_that_of_the_weights():
    settings = {"dtype": torch.float32}
    assert mistakes(OfSettings(settings=settings)) == () and settings["dtype"] is torch.float32
    assert mistakes(OfSettings(settings={})) == ("dtype-pinned",)


class Adapter(Base):
    """Learned keys have a softmax of their own, whose weights a gate multiplies."""

    def __init__(self, **told):
        super().__init__(**told)
        self.keys, self.values = (nn.Parameter(torch.randn(HEADS, 4, HEAD_DIM)) for _ in range(2))
        self.gate = nn.Parameter(torch.full((HEADS, 1, 1), 0.3))

    def attend(self, q, k, v):
        k, v = (
            torch.cat([own.expand(len(q), -1, -1, -1), given], 2) for own, given in ((self.keys, k), (self.values, v))
        )
        of_keys, of_tokens = (q @ k.mT / HEAD_DIM**0.5).split([4, q.shape[2]], -1)
        of_tokens = of_tokens.masked_fill(later(of_tokens), -torch.inf)
        return torch.cat([self.gate.tanh() * of_keys.softmax(-1), of_tokens.softmax(self.axis)], -1) @ v


def test_a_softmax_over_learned_keys_alone_is_not_that_over_tokens():
    assert mistakes(Adapter(axis=-1)) == ()
    assert mistakes(Adapter(axis=-2)) == ("softmax-wrong-axis",)


class TurnsIn(Base):
    """Rotary positions by complex numbers, in a dtype of their own, which bfloat16 can't take the place of."""

    def __init__(self, dtype=torch.float32, *, back=True):
        super().__init__(dtype=dtype, back=back)

    def attend(self, q, k, v):
        q, k = self.turned(q), self.turned(k)
        return weights_of(q @ k.mT / 2) @ v

    def turned(self, part):
        position = torch.arange(part.shape[2], dtype=self.dtype, device=part.device)
        angles = torch.stack([position, position / 10], -1)
        pairs = torch.view_as_complex(part.to(self.dtype).unflatten(-1, (-1, 2)).contiguous())
        turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)
        return turned.type_as(part) if self.back else turned


def test_a_dtype_that_rotations_are_computed_in_stays():
    assert mistakes(TurnsIn()) == ()
    assert mistakes(TurnsIn(back=False)) == ("dtype-pinned",)
