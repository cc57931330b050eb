"""A part of the keys that all heads share may be normalised by a layer of its own, whatever the layer is called."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

HEADS, OWN, SHARED, RANK, D_IN = 3, 6, 4, 10, 16
X = torch.randn(2, 7, D_IN, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def rotated(part):
    turn = torch.arange(part.shape[-2]).to(part)[:, None] * torch.tensor([1.0, 0.1]).to(part)
    one, other = part.chunk(2, -1)
    return torch.cat([one * turn.cos() - other * turn.sin(), one * turn.sin() + other * turn.cos()], -1)


class Latent(nn.Module):
    """Keys of two parts: one of each head, from a latent, and one rotated part for all heads."""

    turns = True

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.queries = nn.Linear(D_IN, HEADS * (OWN + SHARED), bias=False)
        self.latent = nn.Linear(D_IN, RANK + SHARED, bias=False)
        self.own = nn.Linear(RANK, 2 * HEADS * OWN, bias=False)
        self.k_rope_norm = nn.RMSNorm(SHARED)
        self.out = nn.Linear(HEADS * OWN, D_IN, bias=False)

    def forward(self, x):
        q = self.queries(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        latent, shared = self.latent(x).split([RANK, SHARED], -1)
        k, v = self.own(latent).unflatten(-1, (HEADS, -1)).transpose(1, 2).chunk(2, -1)
        q_own, q_shared = q.split([OWN, SHARED], -1)
        shared = self.normalised(shared)[:, None].expand(-1, HEADS, -1, -1)
        if self.turns:
            q_shared, shared = rotated(q_shared), rotated(shared)
        scores = torch.cat([q_own, q_shared], -1) @ torch.cat([self.of_heads(k), shared], -1).mT
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = (scores / (OWN + SHARED) ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))

    def normalised(self, shared):
        return self.k_rope_norm(shared)

    def of_heads(self, k):
        return k


class WithoutPositions(Latent):
    turns = False


class NotCalled(WithoutPositions):
    def normalised(self, shared):
        return shared


def test_a_layer_with_weights_that_is_never_called_is_said():
    assert diagnose(NotCalled(), X, num_heads=HEADS).mistakes == ("rotary-unused",)


class TwoProducts(nn.Module):
    """Scores as the sum of two products, of which one is rotated, as DeepSeek writes them for its cache."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.queries = nn.Linear(D_IN, HEADS * (OWN + SHARED), bias=False)
        self.latent = nn.Linear(D_IN, RANK + SHARED, bias=False)
        self.own = nn.Linear(RANK, 2 * HEADS * OWN, bias=False)
        self.out = nn.Linear(HEADS * OWN, D_IN, bias=False)

    def forward(self, x):
        q = self.queries(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        latent, shared = self.latent(x).split([RANK, SHARED], -1)
        to_keys, to_values = self.own.weight.view(HEADS, 2, OWN, RANK).unbind(1)
        q_own, q_shared = q.split([OWN, SHARED], -1)
        q_shared, shared = self.turned(q_shared, shared[:, None])
        scores = (q_own @ to_keys) @ latent[:, None].mT + q_shared @ shared.mT
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        weights = (scores / (OWN + SHARED) ** 0.5).masked_fill(hidden, -torch.inf).softmax(-1)
        heads = weights @ latent[:, None] @ to_values.mT
        return self.out(heads.transpose(1, 2).flatten(2))

    def turned(self, q, k):
        return rotated(q), rotated(k)


class KeysForgotten(TwoProducts):
    def turned(self, q, k):
        rotated(k)  # wrong
        return rotated(q), k


class QueriesForgotten(TwoProducts):
    def turned(self, q, k):
        rotated(q)  # wrong
        return q, rotated(k)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", [KeysForgotten, QueriesForgotten])
def test_one_rotated_product_of_two_is_judged(kind):
    assert diagnose(TwoProducts(), X, num_heads=HEADS).ok
    report = diagnose(kind(), X, num_heads=HEADS)
    assert report.mistakes == ("rotary-unused",) and report.findings[0].source.endswith("# wrong"), report
