"""The line that a finding names is the one where the wrong number was made, however far away it is used."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(2)

# ruff: noqa: F841  (a rotation whose result nobody reads is one of the mistakes)

BATCH, TOKENS, HEADS, KV_HEADS, HEAD_DIM = 2, 5, 6, 3, 4
WIDTH = HEADS * HEAD_DIM


def positions(scores):
    return torch.arange(scores.shape[-1], device=scores.device)


class Base(nn.Module):
    """Causal attention whose steps the classes below replace, each with one mistake in a marked line."""

    kv_heads = HEADS

    def __init__(self):
        super().__init__()
        self.to_q, self.to_out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.to_k, self.to_v = (nn.Linear(WIDTH, self.kv_heads * HEAD_DIM) for _ in range(2))

    def split(self, x):
        return x.unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2)

    def project(self, x):
        return self.split(self.to_q(x)), self.split(self.to_k(x)), self.split(self.to_v(x))

    def rotate(self, q, k):
        return q, k

    def share(self, t):
        return t

    def mask(self, scores):
        return torch.ones_like(scores, dtype=torch.bool).triu(1)

    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        scores = scores.masked_fill(self.mask(scores), -torch.inf)
        return scores.softmax(dim=-1) @ v

    def merge(self, out):
        return out.transpose(1, 2).flatten(2)

    def forward(self, x):
        q, k, v = self.project(x)
        q, k = self.rotate(q, k)
        out = self.attend(q, self.share(k), self.share(v))
        return self.to_out(self.merge(out))


class IdleMask(Base):
    def mask(self, scores):
        rows, columns = positions(scores)[:, None], positions(scores)
        hidden = columns < rows - scores.shape[-1]  # wrong
        return hidden


class IdleBias(Base):
    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        bias = torch.full_like(scores, -10000.0)
        bias = bias.triu(scores.shape[-1])  # wrong
        scores = scores + bias
        return scores.softmax(dim=-1) @ v


class FlagOfKernel(Base):
    def attend(self, q, k, v):
        causal = False  # wrong
        out = F.scaled_dot_product_attention(
            q,
            k,
            v,
            is_causal=causal,
        )
        return out


class FlagInKernel(Base):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            is_causal=False,  # wrong
        )


class SkippedMask(Base):
    causal = True

    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        if self.causal and q.shape[-2] > 100:  # wrong
            hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
            scores.masked_fill_(hidden, -torch.inf)
        if v.shape[0] > 100:
            scores = scores.masked_fill(v.isnan().any(-1)[:, :, None], -torch.inf)
        return scores.softmax(dim=-1) @ v


class ScaleInKernel(Base):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            is_causal=True,
            scale=HEAD_DIM**-1.0,  # wrong
        )


def _scaled(q, k, v, factor):
    scores = q @ k.mT * factor
    scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    return scores.softmax(dim=-1) @ v


class ScalePassedOn(Base):
    def __init__(self):
        super().__init__()
        self.scale_factor = WIDTH**-0.5  # wrong

    def attend(self, q, k, v):
        return _scaled(q, k, v, self.scale_factor)


class ScaleThrownAway(Base):
    def rotate(self, q, k):
        q / math.sqrt(HEAD_DIM)  # wrong
        return q, k

    def attend(self, q, k, v):
        scores = q @ k.mT
        return scores.masked_fill(self.mask(scores), -torch.inf).softmax(dim=-1) @ v


class Rotary(Base):
    def angles(self, q):
        return positions(q.mT)[:, None] * 100.0 ** -torch.linspace(0, 1, HEAD_DIM // 2, dtype=q.dtype, device=q.device)

    def table(self, angles):
        return torch.cat((angles, angles), dim=-1)

    def half(self, t):
        first, second = t.chunk(2, dim=-1)
        return torch.cat((-second, first), dim=-1)

    def rotate(self, q, k):
        angles = self.table(self.angles(q))
        cos, sin = angles.cos(), angles.sin()
        q = q * cos + self.half(q) * sin
        k = k * cos + self.half(k) * sin
        return q, k


class WrongHalf(Rotary):
    def half(self, t):
        first, second = t.chunk(2, dim=-1)
        return torch.cat((second, first), dim=-1)  # wrong


class WrongSign(Rotary):
    def half(self, t):
        first, second = t.chunk(2, dim=-1)
        return torch.cat((-first, second), dim=-1)  # wrong


class WrongTable(Rotary):
    def table(self, angles):
        return torch.repeat_interleave(angles, 2, dim=-1)  # wrong


class WrongMatrix(Rotary):
    def rotate(self, q, k):
        cos, sin = self.angles(q).cos(), self.angles(q).sin()
        matrices = torch.stack((cos, sin, sin, cos), dim=-1)  # wrong
        matrices = matrices.unflatten(-1, (2, 2))
        return self.apply_to(q, matrices), self.apply_to(k, matrices)

    def apply_to(self, t, matrices):
        pairs = t.unflatten(-1, (-1, 1, 2))
        rotated = matrices[..., 0] * pairs[..., 0] + matrices[..., 1] * pairs[..., 1]
        return rotated.flatten(-2)


class RotationThrownAway(Rotary):
    def forward(self, x):
        q, k, v = self.project(x)
        rotated = self.rotate(q, k)  # wrong
        return self.to_out(self.merge(self.attend(q, k, v)))


class FirstKVHead(Base):
    kv_heads = KV_HEADS

    def share(self, t):
        first = t[:, :1]  # wrong
        return first.repeat_interleave(HEADS, dim=1)


class ValuesFromKeys(Base):
    def scores(self, x):
        q, k = self.split(self.to_q(x)), self.split(self.to_k(x))
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        return scores.masked_fill(self.mask(scores), -torch.inf)

    def mixed(self, x, weights):
        v = self.split(self.to_k(x))  # wrong
        return weights @ v

    def forward(self, x):
        weights = self.scores(x).softmax(dim=-1)
        return self.to_out(self.merge(self.mixed(x, weights)))


class Inverted(Base):
    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        seen = torch.ones_like(scores, dtype=torch.bool).tril()
        bias = torch.zeros_like(scores)
        bias.masked_fill_(seen, -1e9)  # wrong
        scores = scores + bias
        return scores.softmax(dim=-1) @ v


class SecondOfTwoMasks(Base):
    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        lengths = torch.full((len(q), 1), scores.shape[-1], device=q.device)
        padded = positions(scores) >= lengths
        scores = scores.masked_fill(padded[:, None, None], -torch.inf)
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(2)  # wrong
        scores = scores.masked_fill(hidden, -torch.inf)
        return scores.softmax(dim=-1) @ v


class MergedAtOnce(Base):
    def merge(self, out):
        return out.reshape(out.shape[0], out.shape[-2], -1)  # wrong


class QueriesMixed(Base):
    """The queries are mixed, and the values are unused."""

    def attend(self, q, k, v):
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        scores = scores.masked_fill(self.mask(scores), -torch.inf)
        weights = scores.softmax(dim=-1)
        return weights @ q  # wrong


class GateOfItself(Base):
    """The layer of the gate is never called."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def merge(self, out):
        merged = super().merge(out)
        merged = merged * torch.sigmoid(merged)  # wrong
        return merged


KEEP = torch.ones(BATCH, TOKENS, dtype=torch.bool)
KEEP[1, 3:] = KEEP[0, 4:] = False


CASES = [
    (QueriesMixed, "projection-reused"), (GateOfItself, "gate-unused"),
    (IdleMask, "no-causal-mask"), (IdleBias, "no-causal-mask"), (FlagOfKernel, "no-causal-mask"),
    (FlagInKernel, "no-causal-mask"), (SkippedMask, "no-causal-mask"), (ScaleInKernel, "wrong-scale"),
    (ScalePassedOn, "wrong-scale"), (ScaleThrownAway, "missing-scale"), (WrongHalf, "rotary-wrong-turn"),
    (WrongSign, "rotary-wrong-turn"), (WrongTable, "rotary-wrong-turn"), (WrongMatrix, "rotary-wrong-turn"),
    (RotationThrownAway, "rotary-unused"), (FirstKVHead, "kv-head-zero-only"), (ValuesFromKeys, "projection-reused"),
    (Inverted, "mask-inverted"), (SecondOfTwoMasks, "mask-off-by-one"), (MergedAtOnce, "merge-without-transpose"),
]  # fmt: skip


def report_of(wrong):
    torch.manual_seed(0)
    x = torch.randn(BATCH, TOKENS, WIDTH)
    return diagnose(wrong(), x, num_heads=HEADS, num_kv_heads=wrong.kv_heads)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("wrong", "mistake"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_the_line_that_made_it(wrong, mistake):
    report = report_of(wrong)
    assert report.mistakes[:1] == (mistake,), report
    assert report.findings[0].where in marked(wrong), report
