"""Layers in a plain Python list, which no conversion of the model reaches."""

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


def test_their_attention_is_examined():
    assert diagnose(Model(1.0), IDS, causal=False, num_heads=1).mistakes == ("missing-scale", "dtype-pinned")
