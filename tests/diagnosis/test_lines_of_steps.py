"""The line of a step that is missing, idle or decided elsewhere is named, and not that of a step that is right."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked
from tests.diagnosis.test_lines import BATCH, HEAD_DIM, HEADS, TOKENS, WIDTH, Base

pytestmark = pytest.mark.one_in(2)

# ruff: noqa: F841  (a bias that nobody adds is one of the mistakes)

KEEP = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def hidden(scores):
    return torch.ones_like(scores, dtype=torch.bool).triu(1)


def products(q, k):
    return q @ k.mT / math.sqrt(HEAD_DIM)


class NoSoftmaxBeforeDropout(Base):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def attend(self, q, k, v):
        scores = products(q, k)
        scores = scores.masked_fill(hidden(scores), 0.0)
        assert scores.shape[-1] == k.shape[-2]
        assert scores.shape[-2] == q.shape[-2]
        weights = self.drop(scores)  # wrong
        assert weights.dim() == v.dim()
        return weights @ v


class ScoresAsWeights(Base):
    def attend(self, q, k, v):
        scores = products(q, k)
        scores = scores.masked_fill(hidden(scores), 0.0)
        assert scores.shape[-1] == k.shape[-2]
        return scores @ v  # wrong


def by_distance(table, count):
    at = torch.arange(count, device=table.device)
    distances = (at[:, None] - at).abs().flatten()
    bias = table[distances].T.reshape(HEADS, count, count)
    return bias.contiguous()


class BiasNotAdded(Base):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(32, HEADS))

    def attend(self, q, k, v):
        bias = by_distance(self.table, q.shape[-2])  # wrong
        scores = products(q, k)
        return scores.masked_fill(hidden(scores), -torch.inf).softmax(dim=-1) @ v


class WideWeights(Base):
    def rotate(self, q, k):
        q, k = ((t.float() * 0.5).to(t.dtype) for t in (q, k))
        return 2 * q, 2 * k

    def attend(self, q, k, v):
        scores = products(q, k)
        scores = scores.masked_fill(hidden(scores), -torch.inf)
        weights = scores.float().softmax(dim=-1)  # wrong
        return weights @ v


def half_turned(t, cos, sin):
    low, high = t[..., : HEAD_DIM // 2], t[..., HEAD_DIM // 2 :]
    return torch.cat((low * cos - high * sin, low * sin + high * cos), dim=-1)


class OneHeadAfterTurning(Base):
    kv_heads = 3

    def attend(self, q, k, v):
        angles = torch.arange(q.shape[-2], device=q.device)[:, None] / torch.tensor([1.0, 9.0], device=q.device)
        cos, sin = angles.cos().to(q), angles.sin().to(q)
        q = half_turned(q, cos, sin)
        k = half_turned(k, cos[:, : HEAD_DIM // 2], sin[:, : HEAD_DIM // 2])
        assert k.shape == v.shape
        k = k[:, 0:1].repeat(1, HEADS, 1, 1)  # wrong
        v = v[:, 0:1].repeat(1, HEADS, 1, 1)
        scores = products(q, k)
        return scores.masked_fill(hidden(scores), -torch.inf).softmax(dim=-1) @ v


class Padded(Base):
    def forward(self, x):
        q, k, v = self.project(x)
        return self.to_out(self.merge(self.attend(q, k, v, KEEP.to(x.device))))


class InvertedAndCleaned(Padded):
    def attend(self, q, k, v, keep):
        blind = keep[:, None, None] == 1  # wrong
        scores = products(q, k)
        weights = scores.masked_fill(blind, -torch.inf).softmax(dim=-1)
        return weights.masked_fill(blind, 0.0) @ v


class KeysAsQueries(Padded):
    def attend(self, q, k, v, keep):
        blind = (~keep)[:, None, :, None]  # wrong
        scores = products(q, k)
        weights = scores.masked_fill(blind, -1e9).softmax(dim=-1)
        return weights.masked_fill(blind, 0.0) @ v


class SmallPenalty(Padded):
    def attend(self, q, k, v, keep):
        penalty = 12.0 * (~keep)[:, None, None].to(q)
        scores = products(q, k)
        scores = scores - penalty  # wrong
        return scores.softmax(dim=-1) @ v


class Switched(Base):
    def __init__(self, masked):
        super().__init__()
        self.masked = masked

    def attend(self, q, k, v):
        scores = products(q, k)
        if self.masked:
            scores = scores.masked_fill(hidden(scores), -torch.inf)
        assert scores.dim() == v.dim()
        return scores.softmax(dim=-1) @ v


class TwoSwitched(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Switched(masked=True)
        self.second = Switched(masked=False)  # wrong

    def forward(self, x):
        x = x + self.first(x)
        return x + self.second(x)


def weighed(q, k, v, mask=None):
    scores = products(q, k)
    if mask is not None:
        scores = scores.masked_fill(mask, -torch.inf)
    return scores.softmax(dim=-1) @ v


class NoneGiven(Base):
    def attend(self, q, k, v):
        return weighed(q, k, v, mask=None)  # wrong


class ArrangedAndForgotten(Base):
    def attend(self, q, k, v, padding=None):
        mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        mask = mask[None, None]  # wrong
        scores = products(q, k)
        if padding is not None:
            scores = scores.masked_fill(padding, -torch.inf)
        return scores.softmax(dim=-1) @ v


class ArrangedAndNotGiven(Base):
    def attend(self, q, k, v):
        mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        mask = mask[None, None]  # wrong
        return weighed(q, k, v)  # wrong


class ReadyAndSkipped(Base):
    def attend(self, q, k, v, padding=None):
        mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = products(q, k)
        if padding is not None:  # wrong
            mask = mask | padding
            scores = scores.masked_fill(mask, -torch.inf)
        return scores.softmax(dim=-1) @ v


def hide_(scores, itself):
    rows, columns = torch.triu_indices(*scores.shape[-2:], offset=0 if itself else 1, device=scores.device)
    scores[..., rows, columns] = -torch.inf


class FlagOfHelper(Base):
    def attend(self, q, k, v):
        scores = products(q, k)
        hide_(scores, itself=True)  # wrong
        return scores.softmax(dim=-1) @ v


class HiddenInCopy(Base):
    def attend(self, q, k, v):
        scores = products(q, k)
        hide_(scores.clone(), itself=False)  # wrong
        return scores.softmax(dim=-1) @ v


class QueriesOfFlatTokens(Base):
    def __init__(self):
        super().__init__()
        self.q_weight, self.k_weight, self.v_weight = (nn.Parameter(torch.randn(WIDTH, WIDTH) / 5) for _ in range(3))
        self.to_q = self.to_k = self.to_v = None

    def project(self, x):
        flat, same = x.reshape(-1, WIDTH), x.flatten(0, 1)
        q = self.split((flat @ self.q_weight).view_as(x))
        k = self.split((same @ self.q_weight).view_as(x))  # wrong
        v = self.split((same @ self.v_weight).view_as(x))
        return q, k, v

    def attend(self, q, k, v):
        return weighed(q, k, v, hidden(products(q, k)))


class PackedAndRenamed(Base):
    def __init__(self):
        super().__init__()
        self.to_qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.to_q = self.to_k = self.to_v = None

    def project(self, x):
        query, _, value = self.to_qkv(x).chunk(3, dim=-1)
        q = self.split(query)
        k = self.split(value)  # wrong
        return q, k, self.split(value)

    def attend(self, q, k, v):
        return weighed(q, k, v, hidden(products(q, k)))


class HeadsBeforeSamples(Base):
    def attend(self, q, k, v):
        q, k, v = (t.transpose(0, 1).reshape(-1, TOKENS, HEAD_DIM) for t in (q, k, v))
        return weighed(q, k, v, hidden(products(q, k)))

    def merge(self, out):
        out = out.view(BATCH, HEADS, TOKENS, HEAD_DIM)  # wrong
        out = out.transpose(1, 2)
        return out.flatten(2)

    def forward(self, x):
        out = self.merge(self.attend(*self.project(x)))
        both = torch.cat((x, out), dim=-1)
        return self.to_out(both[..., :WIDTH] + both[..., WIDTH:])


class OtherKernel(Base):
    def __init__(self):
        super().__init__()
        self.use_flash = True

    def attend(self, q, k, v):
        if self.use_flash:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.mT / HEAD_DIM  # wrong
        scores = scores.masked_fill(hidden(scores), -torch.inf)
        weights = scores.softmax(dim=-1)
        return weights @ v


CASES = [
    (NoSoftmaxBeforeDropout, "no-softmax", {}), (ScoresAsWeights, "no-softmax", {}),
    (BiasNotAdded, "dead-parameter", {}), (WideWeights, "dtype-pinned", {}),
    (OneHeadAfterTurning, "kv-head-zero-only", {"num_kv_heads": 3}),
    (InvertedAndCleaned, "mask-inverted", {"keep": KEEP, "causal": False}),
    (KeysAsQueries, "mask-rank", {"keep": KEEP, "causal": False}),
    (SmallPenalty, "mask-scaled", {"keep": KEEP, "causal": False}),
    (TwoSwitched, "no-causal-mask", {}), (NoneGiven, "no-causal-mask", {}),
    (ArrangedAndForgotten, "no-causal-mask", {}), (ArrangedAndNotGiven, "no-causal-mask", {}),
    (ReadyAndSkipped, "no-causal-mask", {}),
    (FlagOfHelper, "mask-off-by-one", {}),
    (HiddenInCopy, "mask-discarded", {}),
    (QueriesOfFlatTokens, "projection-reused", {}), (PackedAndRenamed, "scores-from-values", {}),
    (HeadsBeforeSamples, "batch-mixed", {}), (OtherKernel, "paths-differ", {}),
]  # fmt: skip


def report_of(code, **options):
    torch.manual_seed(0)
    return diagnose(code(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS, **options)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("wrong", "mistake", "options"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_the_line_of_the_step(wrong, mistake, options):
    report = report_of(wrong, **options)
    assert report.mistakes[:1] == (mistake,), report
    assert report.findings[0].where in marked(wrong), report


@pytest.mark.parametrize("before", [1, 3])
def test_a_window_that_is_off_by_one_on_one_side(before):
    class Lopsided(Base):
        def attend(self, q, k, v):
            scores = products(q, k)
            near = torch.ones_like(scores, dtype=torch.bool).tril(2).triu(-before)  # wrong
            return scores.masked_fill(~near, -torch.inf).softmax(dim=-1) @ v

    torch.manual_seed(0)
    report = diagnose(Lopsided(), torch.randn(BATCH, 7, WIDTH), num_heads=HEADS, causal=False, window=3)
    assert report.mistakes == ("window-off-by-one",), report
    assert report.findings[0].where in marked(Lopsided), report
