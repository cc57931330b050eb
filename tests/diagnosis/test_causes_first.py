"""The cause is named first where its effects look like other mistakes: caches, norms, gates and contexts."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(4)

BATCH, TOKENS, HEADS, HEAD_DIM, PROMPT, SLOTS = 2, 6, 3, 4, 3, 8
WIDTH, CONTEXT, CONTEXT_TOKENS = HEADS * HEAD_DIM, 7, 5


def causal(queries, keys, like):
    return torch.ones(queries, keys, dtype=torch.bool, device=like.device).tril(keys - queries)


class Plain(nn.Module):
    """Right attention; the classes below replace its parts."""

    def __init__(self):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def split(self, t):
        return t.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)

    def weigh(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        return scores.masked_fill(~causal(q.shape[2], k.shape[2], q), -torch.inf).softmax(-1) @ v

    def forward(self, x):
        q, k, v = (self.split(one(x)) for one in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(self.weigh(q, k, v).transpose(1, 2).flatten(2))


class Cached(Plain):
    """The same with keys and values of earlier tokens, which are joined before the heads are split."""

    def join(self, past, k, v):
        return (k, v) if past is None else (torch.cat([past[0], k], 1), torch.cat([past[1], v], 1))

    def forward(self, x, past=None):
        k, v = self.join(past, self.k_proj(x), self.v_proj(x))
        context = self.weigh(self.split(self.q_proj(x)), self.split(k), self.split(v))
        return self.out_proj(context.transpose(1, 2).flatten(2)), (k, v)


class JoinsNewValuesFirst(Cached):
    def join(self, past, k, v):
        if past is not None:
            k = torch.cat([past[0], k], 1)
            v = torch.cat([v, past[1]], 1)  # values-misaligned
        return k, v


class SplitsByAView(Cached):
    def split(self, t):
        return t.reshape(len(t), HEADS, -1, HEAD_DIM)  # split-without-transpose


class SplitsValuesByAView(Cached):
    """The prompt has as many tokens as there are heads, so that no axis of the view runs through tokens and columns."""

    def forward(self, x, past=None):
        q, k = (self.split(one(x)) for one in (self.q_proj, self.k_proj))
        v = self.v_proj(x).view(len(x), HEADS, x.shape[1], HEAD_DIM)  # split-without-transpose
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        return self.out_proj(self.weigh(q, k, v).transpose(1, 2).flatten(2)), (k, v)


class MasksInOnePassOnly(Cached):
    def forward(self, x, past=None):
        self.cached = past is not None
        return super().forward(x, past or (x[:, :0], x[:, :0]))

    def weigh(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        if not self.cached:
            scores = scores.masked_fill(~causal(q.shape[2], k.shape[2], q), -torch.inf)
        return scores.softmax(-1) @ v  # mask-skipped-when-cached


class LosesTheWindow(MasksInOnePassOnly):
    def weigh(self, q, k, v):
        seen = causal(q.shape[2], k.shape[2], q)
        if not self.cached:
            seen = seen.triu(1 - PROMPT)
        scores = (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(~seen, -torch.inf)  # window-lost-in-decode
        return scores.softmax(-1) @ v


class MasksTheCacheFromItsFirstKey(Cached):
    def weigh(self, q, k, v):
        queries, keys = q.shape[2], k.shape[2]
        earlier = torch.ones(queries, keys - queries, dtype=torch.bool, device=q.device).tril()  # causal-top-left
        seen = torch.cat([earlier, causal(queries, queries, q)], 1)
        return (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(~seen, -torch.inf).softmax(-1) @ v


def in_pieces(*sizes, filled=False):
    def decode(module, x):
        past, out = (x[:, :0], x[:, :0]) if filled else None, []
        for part in x.split([*sizes, *[1] * (x.shape[1] - sum(sizes))], 1):
            y, past = module(part, past)
            out.append(y)
        return torch.cat(out, 1)

    return decode


PIECES = [
    (Cached, {}, in_pieces(PROMPT)),
    (JoinsNewValuesFirst, {}, in_pieces()),
    (SplitsByAView, {}, in_pieces()),
    (SplitsValuesByAView, {}, in_pieces(HEADS)),
    (MasksInOnePassOnly, {}, in_pieces(PROMPT, filled=True)),
    (LosesTheWindow, {"window": PROMPT}, in_pieces(PROMPT, filled=True)),
    (MasksTheCacheFromItsFirstKey, {}, in_pieces(PROMPT)),
]
NAMES = {
    JoinsNewValuesFirst: "values-misaligned", SplitsByAView: "split-without-transpose",
    SplitsValuesByAView: "split-without-transpose",
    MasksInOnePassOnly: "mask-skipped-when-cached", LosesTheWindow: "window-lost-in-decode",
    MasksTheCacheFromItsFirstKey: "causal-top-left",
}  # fmt: skip


def draw(cls, *given, **options):
    torch.manual_seed(1)
    return diagnose(cls(*given), torch.randn(BATCH, TOKENS, WIDTH), **{"num_heads": HEADS, **options})


def assert_named(report, cls, mistake):
    assert report.mistakes[:1] == (mistake,), report.in_words()
    assert report.findings[0].where in marked(cls, mistake), report.in_words()


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "options", "call"), PIECES)
def test_pieces(cls, options, call):
    report = draw(cls, call=call, **options)
    if cls in NAMES:
        assert_named(report, cls, NAMES[cls])
    else:
        assert report.ok, report.in_words()


class TurnsPairs(Cached):
    """Rotary positions, each pair of columns put together by a stack, as later pieces have no angle of 0."""

    table, start = (
        torch.polar(torch.ones(SLOTS, 2), torch.outer(torch.arange(float(SLOTS)), torch.tensor([1.0, 0.1]))),
        0,
    )

    def at(self, t):
        return slice(self.start, self.start + t.shape[2])

    def turn(self, t):
        turns = self.table[self.at(t)].to(t.device)
        cosines, sines = turns.real.to(t.dtype), turns.imag.to(t.dtype)
        even, odd = t.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((even * cosines - odd * sines, even * sines + odd * cosines), -1).flatten(-2)

    def forward(self, x, past=None):
        self.start = 0 if past is None else past[0].shape[2]
        q, k, v = (self.split(one(x)) for one in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (
            (self.turn(k), v) if past is None else (torch.cat([past[0], self.turn(k)], 2), torch.cat([past[1], v], 2))
        )
        return self.out_proj(self.weigh(self.turn(q), k, v).transpose(1, 2).flatten(2)), (k, v)


class TurnsPiecesAlike(TurnsPairs):
    table = torch.complex(TurnsPairs.table.real.bfloat16().float(), TurnsPairs.table.imag.bfloat16().float())

    def at(self, t):
        return slice(0, t.shape[2])


def test_pieces_that_restart_with_a_table_of_16_bits():
    report = draw(TurnsPiecesAlike, call=in_pieces(PROMPT))
    assert report.mistakes[:1] == ("positions-restart-in-cache",), report.in_words()


class IgnoresAngles(Plain):
    def forward(self, x, cos, sin):  # rotary-unused
        return super().forward(x)


class LeavesTheAnglesToAHelper(IgnoresAngles):
    def forward(self, x, cos, sin):
        q, k = (self.turned(self.split(one(x)), cos, sin) for one in (self.q_proj, self.k_proj))
        return self.out_proj(self.weigh(q, k, self.split(self.v_proj(x))).transpose(1, 2).flatten(2))

    def turned(self, t, cos, sin):
        first, second = t.chunk(2, -1)
        return t * cos + torch.cat([-second, first], -1) * sin


@pytest.mark.slow
@pytest.mark.parametrize("cls", [LeavesTheAnglesToAHelper, IgnoresAngles])
def test_angles_that_a_module_is_given(cls):
    angles = torch.outer(torch.arange(float(SLOTS)), torch.tensor([1.0, 0.1])).repeat(1, 2)
    cos, sin = angles.cos(), angles.sin()

    def call(module, x):
        return module(x, *(one[: x.shape[1]].to(x) for one in (cos, sin)))

    report = draw(cls, call=call)
    if cls is IgnoresAngles:
        assert_named(report, IgnoresAngles, "rotary-unused")
    else:
        assert report.ok, report.in_words()


class SubtractsTheLargestScore(Plain):
    def weigh(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        scores = scores - scores.max()
        weights = scores  # no-softmax
        return weights @ v


class AveragesGatedHeads(Plain):
    def __init__(self):
        super().__init__()
        self.gates, self.out_proj = nn.Linear(WIDTH, HEADS), nn.Linear(HEAD_DIM, WIDTH)

    def forward(self, x):
        q, k, v = (self.split(one(x)) for one in (self.q_proj, self.k_proj, self.v_proj))
        context = self.weigh(q, k, v) * self.gates(x).sigmoid().transpose(1, 2)[..., None]
        context = context.mean(1)  # heads-averaged
        return self.out_proj(context)


class MultipliesTanhOnly(Plain):
    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = nn.LayerNorm(HEAD_DIM), nn.LayerNorm(HEAD_DIM)

    def weigh(self, q, k, v):
        scores = self.q_norm(q) @ self.k_norm(k).mT / math.sqrt(HEAD_DIM)
        scores = 5.0 * scores.tanh()  # softcap-missing
        return scores.masked_fill(~causal(q.shape[2], k.shape[2], q), -torch.inf).softmax(-1) @ v


class ThrowsANormAway(MultipliesTanhOnly):
    def weigh(self, q, k, v):
        k = self.k_norm(k)
        self.q_norm(q)  # dead-parameter
        return super(MultipliesTanhOnly, self).weigh(q, k, v)


class HasAnIdleNorm(Plain):
    def __init__(self):
        super().__init__()
        self.ln_q = nn.LayerNorm(WIDTH)  # dead-parameter


class BuildsASoftmaxOnly(Plain):
    def __init__(self):
        super().__init__()
        self.normalise = nn.Softmax(-1)  # no-softmax

    def forward(self, x):
        q, k, v = (self.split(one(x)) for one in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        return self.out_proj((scores @ v).transpose(1, 2).flatten(2))[:, :1]


class ForgetsTheScoresOfPositions(Plain):
    def __init__(self):
        super().__init__()
        self.place_proj = nn.Linear(4, WIDTH)

    def weigh(self, q, k, v):
        angles = torch.outer(torch.arange(k.shape[2], device=k.device).to(k.dtype), torch.tensor([1.0, 0.1]).to(k))
        places = self.split(self.place_proj(torch.cat((angles.sin(), angles.cos()), -1))[None])
        self.of_places = q @ places.mT
        scores = q @ k.mT / math.sqrt(HEAD_DIM)  # dead-parameter
        return scores.masked_fill(~causal(q.shape[2], k.shape[2], q), -torch.inf).softmax(-1) @ v


class CutsTheWindowAtTheStart(Plain):
    def weigh(self, q, k, v):
        at = torch.arange(q.shape[2], device=q.device)
        seen = (at > (at[:, None] - 2).clamp(min=0)) & (at <= at[:, None])  # window-off-by-one
        scores = (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(~seen, torch.finfo(q.dtype).min)
        return scores.softmax(-1) @ v


ALONE = [
    (SubtractsTheLargestScore, "no-softmax", {"causal": False}),
    (AveragesGatedHeads, "heads-averaged", {}),
    (MultipliesTanhOnly, "softcap-missing", {}),
    (ThrowsANormAway, "dead-parameter", {}),
    (HasAnIdleNorm, "dead-parameter", {}),
    (BuildsASoftmaxOnly, "no-softmax", {"causal": False}),
    (CutsTheWindowAtTheStart, "window-off-by-one", {"window": 3}),
]


@pytest.mark.parametrize(("cls", "mistake", "options"), ALONE)
def test_one_pass(cls, mistake, options):
    assert_named(draw(cls, **options), cls, mistake)


def test_a_table_of_positions_that_a_matrix_projects_is_no_rotation():
    report = draw(ForgetsTheScoresOfPositions)
    assert report.mistakes == ("dead-parameter",), report.in_words()


class MasksOfAPrefix(nn.Module):
    """Tokens before the text are seen by all, and a token of the text sees the text up to itself."""

    def __init__(self, transposed):
        super().__init__()
        self.attention, self.transposed = Plain(), transposed

    def forward(self, x):
        text = torch.ones(TOKENS - 2, TOKENS - 2, dtype=torch.bool, device=x.device)
        seen = F.pad(text.triu() if self.transposed else text.tril(), (0, 0, 2, 0))
        seen = torch.cat([torch.ones_like(seen[:, :2]), seen], 1)
        attention = self.attention
        q, k, v = (attention.split(one(x)) for one in (attention.q_proj, attention.k_proj, attention.v_proj))
        weights = (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(~seen, -torch.inf).softmax(-1)
        return attention.out_proj((weights @ v).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("transposed", [False, True])
def test_one_block_of_a_mask_is_transposed(transposed):
    at = torch.arange(TOKENS)
    keep = (at < 2) | ((at[:, None] >= 2) & (at <= at[:, None]))
    report = draw(MasksOfAPrefix, transposed, causal=False, keep=keep, lengths=[TOKENS])
    assert report.mistakes == (("mask-transposed",) if transposed else ()), report.in_words()


class Cross(nn.Module):
    """Cross-attention; its class is not given the width of the output."""

    def __init__(self, dim, context_dim, out, wide=False):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(one, WIDTH) for one in (dim, context_dim, context_dim))
        self.out_proj = nn.Linear(WIDTH, out)

    def forward(self, x, context):
        q, k, v = (
            one(given).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
            for one, given in ((self.q_proj, x), (self.k_proj, context), (self.v_proj, context))
        )
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class AsWideAsX(Cross):
    def __init__(self, dim, context_dim):
        super().__init__(dim, context_dim, dim)


class AsWideAsTheContext(Cross):
    def __init__(self, dim, context_dim):
        super().__init__(dim, context_dim, context_dim)


class AsWideAsAsked(Cross):
    def __init__(self, dim, context_dim, out_dim):
        super().__init__(dim, context_dim, out_dim)


class AsWideAsTheHeads(Cross):
    def __init__(self, dim, heads, rate, kv_in_dim):
        super().__init__(dim, kv_in_dim, WIDTH)
        self.dim, self.kv_in_dim = dim, kv_in_dim


class AsWideAsItsUnits(Cross):
    def __init__(self, dim, kv_in_dim, units):
        super().__init__(dim, kv_in_dim, units)
        self.dim = dim


@pytest.mark.parametrize(
    ("cls", "given", "wrong"),
    [
        (AsWideAsX, (24, CONTEXT), False),
        (AsWideAsTheContext, (24, CONTEXT), True),
        (AsWideAsAsked, (24, CONTEXT, CONTEXT), False),
        (AsWideAsTheHeads, (24, HEADS, 2, CONTEXT), True),
        (AsWideAsItsUnits, (24, CONTEXT, WIDTH), False),
    ],
)
def test_the_width_of_the_output_beside_a_context(cls, given, wrong):
    torch.manual_seed(1)
    x, context = torch.randn(BATCH, TOKENS, 24), torch.randn(BATCH, CONTEXT_TOKENS, CONTEXT)
    report = diagnose(cls(*given), x, context=context, num_heads=HEADS)
    assert report.mistakes == (("output-projection-shape",) if wrong else ()), report.in_words()


class ReturnsWeights(Plain):
    def forward(self, x, bias, return_attn=False):
        q, k, v = (self.split(one(x)) for one in (self.q_proj, self.k_proj, self.v_proj))
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        weights = self.weights(scores, bias, return_attn=return_attn)
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        return (output, scores, weights) if return_attn else output

    def weights(self, scores, bias, *, return_attn):
        return (scores + bias).softmax(-1)


class ForgetsTheMaskBesideWeights(ReturnsWeights):
    def weights(self, scores, bias, *, return_attn):
        return scores.softmax(-1) if return_attn else (scores + bias).softmax(-1)


@pytest.mark.parametrize("cls", [ReturnsWeights, ForgetsTheMaskBesideWeights])
def test_a_call_without_the_flag_that_asks_for_weights(cls):
    def call(module, x):
        return module(x, x.new_full((x.shape[1], x.shape[1]), -torch.inf).triu(1))

    report = draw(cls, call=call)
    assert report.mistakes == (() if cls is ReturnsWeights else ("mask-lost-on-option",)), report.in_words()


class ReadsValuesAlone(nn.Module):
    """A norm over all tokens comes first, so that the attention is examined apart."""

    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out_proj = (
            nn.GroupNorm(2, WIDTH),
            nn.Linear(WIDTH, 3 * WIDTH),
            nn.Linear(WIDTH, WIDTH),
        )

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x.mT).mT).unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        self.weights = (q @ k.mT / math.sqrt(HEAD_DIM)).softmax(-1)
        context = v.transpose(1, 2).flatten(2)  # weights-not-applied
        return self.out_proj(context)


def test_nothing_reads_the_weights_behind_a_norm_over_tokens():
    assert_named(draw(ReadsValuesAlone, causal=False), ReadsValuesAlone, "weights-not-applied")
