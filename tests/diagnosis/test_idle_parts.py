"""Gates, elements and projections that change nothing are found, also where a base class or a whole builds them."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

D, HEADS, HEAD_DIM = 12, 3, 4
X = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    """Causal attention whose subclass makes the queries."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.q_proj, self.kv_proj, self.out = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D)

    def forward(self, x):
        q, (k, v) = self.queries(x), self.kv_proj(x).chunk(2, -1)
        q, k, v = (one.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2) for one in (q, k, v))
        scores = self.biased(q @ k.mT * HEAD_DIM**-0.5)
        weights = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf).softmax(-1)
        return self.out(self.gated(weights @ v).transpose(1, 2).flatten(2))

    def biased(self, scores):
        return scores

    def gated(self, heads):
        return heads


class Attention(Base):
    def queries(self, x):
        return self.q_proj(x)


class WithoutQueries(Base):
    """Lets the forward of its base run."""

    def forward(self, x):
        return super().forward(x)

    def queries(self, x):
        return x


class Gated(Attention):
    """Keeps its input, and lets the forward of its base run."""

    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(D, D)

    def forward(self, x):
        self.tokens = x
        return super().forward(x)

    def gated(self, heads):
        return heads * self.gate_proj(self.tokens).sigmoid().unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)


class Slopes(Attention):
    """Adds a learned multiple of the distance for each head."""

    def __init__(self):
        super().__init__()
        self.slopes = nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))

    def chosen(self):
        return self.slopes

    def biased(self, scores):
        at = torch.arange(scores.shape[-1], device=scores.device)
        return scores - self.chosen()[:, None, None] * (at - at[:, None]).abs()


class FirstSlope(Slopes):
    def chosen(self):
        return self.slopes[:1].expand(HEADS)


class NarrowNetwork(Attention):
    """Makes biases of distances with a network that is as narrow as there are heads, one unit of which is off."""

    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.LayerNorm(HEADS), nn.Linear(HEADS, HEADS)
        nn.init.constant_(self.norm.bias[0], -9)

    def biased(self, scores):
        at = torch.arange(scores.shape[-1], device=scores.device)
        distance = (at - at[:, None]).abs()[..., None].to(scores) * torch.tensor([1.0, 0.3, -0.5]).to(scores)
        return scores + self.last(self.norm(distance).relu()).permute(2, 0, 1)


class HeadGates(Attention):
    """Multiplies each head by a learned number."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.tensor([0.5, -0.4, 0.3]))

    def gated(self, heads):
        gate = self.gate.tanh()[:, None, None]
        return heads * gate


class IdleHeadGates(HeadGates):
    def gated(self, heads):
        gate = self.gate.tanh()[:, None, None]  # noqa: F841 - the mistake
        return heads


class Modulated(nn.Module):
    """A block whose shift, scale and gate are made of a condition."""

    def __init__(self):
        super().__init__()
        self.attention, self.modulation = Attention(), nn.Linear(D, 3 * D)

    def parts(self):
        condition = torch.ones(1, 1, D, dtype=self.modulation.weight.dtype, device=self.modulation.weight.device)
        shift, scale, gate = self.modulation(condition).chunk(3, -1)
        return shift, scale, gate

    def forward(self, x):
        shift, scale, gate = self.parts()
        return x + gate * self.attention(x * (1 + scale) + shift)


class IdleModulation(Modulated):
    def forward(self, x):
        shift, scale, _ = self.parts()
        return x + self.attention(x * (1 + scale) + shift)


class Block(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x):
        return self.attention(x)


class Watched(Block):
    def set_last(self, rows):
        vars(self).update(last=rows)

    def keep(self, rows):
        self.set_last(rows)
        return rows / 2

    def forward(self, x):
        output = self.attention(x)
        self.keep(output)
        return output


USED = [lambda: Watched(Attention()), Gated, Slopes, NarrowNetwork, HeadGates, Modulated, lambda: Block(Attention())]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("code", USED)
def test_parts_that_are_used_are_right(code):
    assert diagnose(code(), X).ok


@pytest.mark.parametrize(
    ("code", "mistake", "words"),
    [
        (WithoutQueries, "dead-parameter", "`q_proj.weight` (12, 12) does not change the output"),
        (lambda: Block(WithoutQueries()), "dead-parameter", "`attention.q_proj.weight` (12, 12) does not change"),
        (
            FirstSlope,
            "dead-parameter",
            "of `slopes`, with an element for each head, those of 1 and 2 do not change",
        ),
        (IdleHeadGates, "gate-unused", "`gate` (3, 1, 1) is computed, and no line reads it"),
        (IdleModulation, "gate-unused", "`gate` (1, 1, 12), one of 3 parts, changes no output"),
    ],
)
def test_a_part_that_changes_nothing_is_named(code, mistake, words):
    found = diagnose(code(), X).findings[0]
    assert found.mistake == mistake and words in found.evidence
