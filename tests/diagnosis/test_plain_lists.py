"""Layers in a plain Python list, which no conversion of the model reaches."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose


class Layer(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.q, self.k, self.v, self.scale = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12), scale

    def forward(self, x):
        weights = (self.q(x) @ self.k(x).mT * self.scale).softmax(-1)
        return x + weights @ self.v(x)


class Model(nn.Module):
    def __init__(self, scale=12**-0.5, kind=list):
        super().__init__()
        self.embed = nn.Embedding(50, 12)
        self.layers = kind(Layer(scale) for _ in range(2))  # the list

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return x


IDS = torch.randint(1, 50, (2, 8), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", [list, tuple])
def test_layers_in_a_plain_list_are_said_at_its_line(kind):
    report = diagnose(Model(kind=kind), IDS, causal=False, num_heads=1)
    (found,) = report.findings
    assert found.mistake == "dtype-pinned" and found.source.startswith("self.layers = "), report
    assert found.evidence.startswith("layers are kept in a plain list, `layers`, so that ")
    assert found.evidence.endswith("pass them by: use nn.ModuleList") and not report.not_examined


def test_their_attention_is_examined():
    assert diagnose(Model(1.0), IDS, causal=False, num_heads=1).mistakes == ("missing-scale", "dtype-pinned")


class Lender(nn.Module):
    """Keeps its layers in a list beside the nn.ModuleList that registers them."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(12**-0.5) for _ in range(2))
        self.again = list(self.layers)

    def forward(self, x):
        return self.again[1](self.again[0](x))


def test_layers_that_are_registered_too_are_right():
    report = diagnose(Lender(), torch.randn(2, 5, 12), causal=False, num_heads=1)
    assert report.ok, report
