"""Right code of unusual designs is not accused, and the real mistake beside it still is."""

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


# --- copies ---


class Explicit(Base):
    causal = True

    def attend(self, q, k, v):
        scores = q @ k.mT / 2
        return (weights_of(scores) if self.causal else scores.softmax(-1)) @ v


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


class TwoLayers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Additive(), Additive(weigh=lambda scores: scores.softmax(-1))

    def forward(self, x):
        return self.second(x + self.first(x))


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


# --- options where intent can't be known ---


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


def test_a_reference_that_can_not_be_run():
    (finding,) = diagnose(Explicit(), X, expect=nn.Linear(3, 4)).findings
    assert finding.title == "It could not be examined: `expect` can't be run on this x."
    (finding,) = diagnose(Explicit(), X, expect=lambda x: x[:, :2]).findings
    assert "its output has the shape (2, 5, 12), and that of `expect` (2, 2, 12)" in finding.title


# --- names of attributes, and what `call` is for ---


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("leaks", "found"), [(False, ()), (True, ("no-causal-mask",)), ("with both", ("is-causal-with-mask",))]
)
def test_ids_that_come_in_pieces_are_examined(leaks, found):
    def call(model, ids):
        cache = []
        return torch.cat([model(ids[:, :3], cache), *(model(one, cache) for one in ids[:, 3:].split(1, 1))], dim=1)

    report = diagnose(Prompted(leaks=leaks), torch.arange(12).view(2, 6), num_heads=HEADS, call=call)
    assert report.mistakes == found and report.exit_status < 2, report


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
