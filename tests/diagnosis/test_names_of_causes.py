"""What is idle, too weak or normalised over tokens is called that, wherever it stands in a block."""

# ruff: noqa: F841
import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(2)

BATCH, TOKENS, HEADS, HEAD_DIM = 3, 6, 3, 4
WIDTH = HEADS * HEAD_DIM
X = torch.randn(BATCH, TOKENS, WIDTH, generator=torch.Generator().manual_seed(4))
LAYER_NORM: Callable[[], nn.Module] = partial(nn.LayerNorm, WIDTH)
KEEP = torch.tensor([4, 6, 5])[:, None] > torch.arange(TOKENS)


def later(scores):
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)


class Attention(nn.Module):
    """Right attention; the classes below replace its parts."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.linear = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def split(self, t):
        return t.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)

    def heads(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.split(q), self.split(k), self.split(v)

    def hide(self, scores):
        return scores.masked_fill(later(scores), -torch.inf)

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = self.hide(q @ k.mT / math.sqrt(HEAD_DIM))
        return self.linear((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class FillsWithTen(Attention):
    def hide(self, scores):
        return scores.masked_fill(later(scores), -10.0)  # wrong


class ChoosesTen(Attention):
    def hide(self, scores):
        return torch.where(later(scores), -10.0, scores)  # wrong


class FillsWithTenByName(Attention):
    def hide(self, scores):
        low = -10.0  # wrong
        hidden = later(scores)
        return scores.masked_fill(hidden, value=low)


class AddsMinusTen(Attention):
    def hide(self, scores):
        return scores + later(scores).to(scores) * -10.0  # wrong


class SubtractsTen(Attention):
    def hide(self, scores):
        return scores - later(scores).to(scores) * 10.0  # wrong


class FlagByName(Attention):
    def forward(self, x):
        merged = F.scaled_dot_product_attention(*self.heads(x), is_causal=True)  # wrong
        return self.linear(merged.transpose(1, 2).flatten(2))


class FlagByPosition(Attention):
    def forward(self, x):
        merged = F.scaled_dot_product_attention(*self.heads(x), None, 0.0, True)  # wrong
        return self.linear(merged.transpose(1, 2).flatten(2))


class ChoosesZero(Attention):
    def hide(self, scores):
        blocked = torch.zeros((), dtype=scores.dtype, device=scores.device)  # wrong
        return torch.where(KEEP[:, None, None].to(scores.device), scores, blocked)


class ThrowsTheProjectionAway(Attention):
    def forward(self, x):
        q, k, v = self.heads(x)
        out = (self.hide(q @ k.mT / math.sqrt(HEAD_DIM)).softmax(-1) @ v).transpose(1, 2).flatten(2)
        self.linear(out)  # wrong
        return out


class NamesTheNormedInVain(Attention):
    def __init__(self):
        super().__init__()
        self.q_ln, self.k_ln = nn.LayerNorm(HEAD_DIM), nn.LayerNorm(HEAD_DIM)

    def heads(self, x):
        q, k, v = super().heads(x)
        q_normed, k_normed = (self.q_ln(q), self.k_ln(k))  # wrong
        return q, k, v


class KeysOfTheValues(Attention):
    def heads(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        query, key, value = self.split(query), self.split(value), self.split(value)  # wrong
        return query, key, value


class Mean(nn.Module):
    """A norm that divides by the mean square over an axis."""

    def __init__(self, axis):
        super().__init__()
        self.axis, self.weight = axis, nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        size = x.float().pow(2).mean(self.axis, keepdim=True)  # over
        return x * torch.rsqrt(size + 1e-6).type_as(x) * self.weight


class Block(nn.Module):
    """A right block whose norms come before its parts, or after them."""

    def __init__(self, *, before=True, attention=Attention, norm: Callable[[], nn.Module] = LAYER_NORM):
        super().__init__()
        torch.manual_seed(2)
        self.before, self.attn = before, attention()
        self.norm1, self.norm2 = norm(), norm()
        self.up, self.down, self.gate = nn.Linear(WIDTH, 14), nn.Linear(14, WIDTH), nn.Linear(WIDTH, 14)
        self.scale1, self.scale2 = (nn.Parameter(torch.full((WIDTH,), 0.3)) for _ in range(2))

    def feed(self, x):
        return self.down(self.up(x).relu() if self.gate is None else self.up(x).relu() * self.gate(x))

    def forward(self, x):
        if self.before:
            x = x + self.scale1 * self.attn(self.norm1(x))
            return x + self.scale2 * self.feed(self.norm2(x))
        x = self.norm1(x + self.scale1 * self.attn(x))
        return self.norm2(x + self.scale2 * self.feed(x))


class FirstNormTwice(Block):
    def forward(self, x):
        if self.before:
            x = x + self.scale1 * self.attn(self.norm1(x))
            return x + self.scale2 * self.feed(self.norm1(x))  # wrong
        x = self.norm1(x + self.scale1 * self.attn(x))
        return self.norm2(x + self.scale2 * self.feed(x))


class FirstScaleTwice(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.up = Attention(), nn.Linear(WIDTH, WIDTH)
        self.scale1, self.scale2 = (nn.Parameter(torch.full((WIDTH,), 0.3)) for _ in range(2))

    def forward(self, x):
        x = x + self.scale1 * self.attn(x)
        return x + self.scale1 * self.up(x).relu()  # wrong


class GateAskedForOnly(nn.Module):
    """Its second layer would have a gate."""

    def __init__(self):
        super().__init__()
        self.attn, self.up = Attention(), nn.Linear(WIDTH, WIDTH)
        self.gate = nn.Linear(WIDTH, WIDTH)  # wrong

    def forward(self, x):
        """Attend, and pass through the gate."""
        x = x + self.attn(x)
        if self.gate is None:
            return x + self.up(x).relu()
        return x + self.up(x).relu()


class BlocksWithoutReturn(nn.Module):
    class Layer(Block):
        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            out = x + self.feed(self.norm2(x))  # wrong

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(self.Layer(norm=partial(Mean, -1)) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("wrong", "mistake", "options"),
    [
        (FillsWithTenByName, "mask-scaled", {}), (FillsWithTen, "mask-scaled", {}), (ChoosesTen, "mask-scaled", {}),
        (AddsMinusTen, "mask-scaled", {}), (SubtractsTen, "mask-scaled", {}),
        (FlagByName, "is-causal-with-mask", {"window": 2}), (FlagByPosition, "is-causal-with-mask", {"window": 2}),
        (ChoosesZero, "mask-with-zero", {"keep": KEEP[:, None, None], "causal": False}),
        (ThrowsTheProjectionAway, "output-projection-missing", {}), (NamesTheNormedInVain, "value-unused", {}),
        (KeysOfTheValues, "scores-from-values", {}), (FirstNormTwice, "dead-parameter", {}),
        (FirstScaleTwice, "dead-parameter", {}),
        (GateAskedForOnly, "gate-unused", {}), (BlocksWithoutReturn, "returns-none", {}),
    ],
)  # fmt: skip
def test_the_cause_is_named(wrong, mistake, options):
    report = diagnose(wrong(), X, num_heads=HEADS, **options)
    assert report.mistakes == (mistake,), report
    assert report.findings[0].where in marked(wrong), report


def test_a_norm_over_tokens_before_an_attention_is_named():
    report = diagnose(Block(norm=partial(Mean, 1)), X, num_heads=HEADS)
    assert report.mistakes == ("norm-wrong-axis",) and {report.findings[0].where} == marked(Mean, "over"), report


class Squeezes(Mean):
    """A gate of what all tokens have in common, which is no norm."""

    def forward(self, x):
        return x * torch.sigmoid(x.mean(1, keepdim=True) * self.weight)


def test_a_gate_of_all_tokens_is_no_norm():
    report = diagnose(Block(norm=partial(Squeezes, 1)), X, num_heads=HEADS)
    assert report.mistakes == (None,), report
