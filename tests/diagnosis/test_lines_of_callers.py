"""The line of a mistake in a caller, in a constructor or in a helper is named there, with the right name first."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked
from tests.diagnosis.test_lines import BATCH, HEAD_DIM, HEADS, TOKENS, WIDTH, Base, Rotary

pytestmark = pytest.mark.one_in(2)


def hidden(scores):
    return torch.ones_like(scores, dtype=torch.bool).triu(1)


def apart(query, key, value, width):
    """Attention as a helper function writes it, with the width whose root divides."""
    scores = torch.matmul(query, key.mT) / math.sqrt(width)
    scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return torch.matmul(scores.softmax(dim=-1), value)


class Kernel(nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, q, k, v):
        scores = q / self.temperature @ k.mT
        return scores.masked_fill(hidden(scores), -torch.inf).softmax(dim=-1) @ v


class Calls(Base):
    def attend(self, q, k, v):
        return apart(q, k, v, HEAD_DIM)


class WidthPassed(Calls):
    def attend(self, q, k, v):
        width = q.shape[-1] * q.shape[1]
        return apart(q, k, v, width)  # wrong


class ValuesPassed(Base):
    def __init__(self):
        super().__init__()
        self.to_kv, self.to_k, self.to_v = nn.Linear(WIDTH, 2 * WIDTH), None, None

    def project(self, x):
        k, v = self.to_kv(x).chunk(2, dim=-1)
        return self.split(self.to_q(x)), self.split(k), self.split(v)

    def attend(self, q, k, v):
        key_width = HEAD_DIM
        return apart(q, v, v, key_width)  # wrong


class Exchanged(Base):
    def attend(self, q, k, v):
        return apart(q, v, k, HEAD_DIM)  # wrong


class Constructed(Base):
    def __init__(self):
        super().__init__()
        self.kernel = Kernel(temperature=HEAD_DIM)  # wrong

    def attend(self, q, k, v):
        return self.kernel(q, k, v)


class WrongAxisOfShape(Base):
    def attend(self, q, k, v):
        _, _, size, _ = q.shape  # wrong
        scores = q @ k.mT
        blind = hidden(scores)
        scores = scores.masked_fill(blind, -torch.inf)
        scores = scores / math.sqrt(size)
        return scores.softmax(dim=-1) @ v


class SwitchedOff(Base):
    def __init__(self):
        super().__init__()
        self.scaled = False  # wrong

    def attend(self, q, k, v):
        scores = q @ k.mT
        if self.scaled:
            scores = scores / math.sqrt(HEAD_DIM)
        return scores.masked_fill(hidden(scores), -torch.inf).softmax(dim=-1) @ v


class SmallFill(Base):
    def attend(self, q, k, v):
        low = 1e-9  # wrong
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        blind = hidden(scores)
        return scores.masked_fill(blind, low).softmax(dim=-1) @ v


class WeakFillScaled(Base):
    def attend(self, q, k, v):
        scores = q @ k.mT
        scores = scores.masked_fill(hidden(scores), -3.0)
        scores = scores / math.sqrt(HEAD_DIM)  # wrong
        return scores.softmax(dim=-1) @ v


class WrongRows(Base):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.ones(32, 32).tril())

    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        seen = self.seen[1 : 1 + scores.shape[-1], : scores.shape[-1]]  # wrong
        scores = scores.masked_fill(seen == 0, -torch.inf)
        return scores.softmax(dim=-1) @ v


class NormOverTokens(Calls):
    def rotate(self, q, k):
        q, k = F.instance_norm(q), F.instance_norm(k)  # wrong
        return q, k


class OnlyKeysKept(Rotary):
    def forward(self, x):
        q, k, v = self.project(x)
        _, k = self.rotate(q, k)  # wrong
        out = self.merge(self.attend(q, k, v))
        return self.to_out(out)


class HelperReturnsArgument(Rotary):
    def rotate(self, q, k):
        cos, sin = self.angles(q).cos().repeat(1, 2), self.angles(q).sin().repeat(1, 2)
        turned = q * cos + self.half(q) * sin
        k_turned = k * cos + self.half(k) * sin
        assert k_turned.shape == k.shape
        return turned, k  # wrong


class KeysOfTheOtherSample(Calls):
    def project(self, x):
        q, k, v = super().project(x)
        k = k.flip(0)  # wrong
        return q, k, v


class SamplesBehindTokens(Calls):
    def merge(self, out):
        out = out.permute(2, 0, 1, 3).contiguous()
        return out.view(out.shape[1], out.shape[0], -1)  # wrong


class OneLayerThreeTimes(Base):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(WIDTH, WIDTH)] * 3)  # wrong

    def project(self, x):
        q, k, v = (self.split(layer(x)) for layer in self.layers)
        return q, k, v

    def attend(self, q, k, v):
        return apart(q, k, v, HEAD_DIM)


class MeanOfValues(Base):
    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        scores = scores.masked_fill(hidden(scores), -torch.inf)
        weights = scores.softmax(dim=-1)
        assert weights.shape == scores.shape
        return v.cumsum(dim=-2) / v.shape[-2]  # wrong


class Unnormalised(Base):
    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        scores = scores.masked_fill(hidden(scores), 0)
        assert scores.dim() == q.dim()
        weights = scores.to(q.dtype)  # wrong
        return weights @ v


class Rearranged(Calls):
    def project(self, x):
        q, k, v = self.to_q(x), self.split(self.to_k(x)), self.to_v(x)
        q, v = (t.unflatten(-1, (HEADS, -1)).reshape(len(x), HEADS, -1, HEAD_DIM) for t in (q, v))  # wrong
        return q, k, v


class HeadNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(HEADS, 1, HEAD_DIM))

    def forward(self, t):
        return F.normalize(t, dim=-1) * self.gamma


class OneNormForBoth(Base):
    def __init__(self):
        super().__init__()
        self.q_norm, self.k_norm = HeadNorm(), HeadNorm()

    def attend(self, q, k, v):
        q = self.q_norm(q)
        k = self.q_norm(k)  # wrong
        scores = q @ k.mT
        return scores.masked_fill(hidden(scores), -torch.inf).softmax(dim=-1) @ v


class TableThrownAway(Base):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(32, HEADS))

    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        at = torch.arange(scores.shape[-1], device=scores.device)
        distances = (at[:, None] - at).abs().flatten()
        bias = self.table[distances].T.reshape(HEADS, len(at), len(at))
        scores + bias  # wrong
        return scores.masked_fill(hidden(scores), -torch.inf).softmax(dim=-1) @ v


CASES = [
    (WidthPassed, "wrong-scale"), (Constructed, "wrong-scale"), (WrongAxisOfShape, "wrong-scale"),
    (ValuesPassed, "scores-from-values"), (Exchanged, "scores-from-values"), (SwitchedOff, "missing-scale"),
    (SmallFill, "mask-with-zero"), (WeakFillScaled, "mask-scaled"), (WrongRows, "mask-off-by-one"),
    (NormOverTokens, "norm-wrong-axis"), (OnlyKeysKept, "rotary-unused"), (HelperReturnsArgument, "rotary-unused"),
    (KeysOfTheOtherSample, "batch-mixed"), (SamplesBehindTokens, "batch-mixed"),
    (OneLayerThreeTimes, "projection-reused"), (MeanOfValues, "weights-not-applied"), (Unnormalised, "no-softmax"),
    (Rearranged, "split-without-transpose"), (OneNormForBoth, "dead-parameter"), (TableThrownAway, "dead-parameter"),
]  # fmt: skip


def report_of(code, call=None):
    torch.manual_seed(0)
    return diagnose(code(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS, call=call)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("wrong", "mistake"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_the_line_that_decided(wrong, mistake):
    report = report_of(wrong)
    assert report.mistakes[:1] == (mistake,), report
    assert report.findings[0].where in marked(wrong), report
