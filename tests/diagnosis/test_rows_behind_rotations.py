"""Angles that turn no token are found in parts of a model, too, if rows do not take the place of those turned."""

import torch
from torch import nn

from course_lib.diagnosis import diagnose


def turned(x, positions):
    width = x.shape[-1]
    angles = positions[:, None] * 100.0 ** (-torch.arange(0, width, 2, dtype=x.dtype, device=x.device) / width)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Twice(nn.Module):
    """Two attentions, one after the other, in one method."""

    def __init__(self, *, stuck):
        super().__init__()
        self.stuck = stuck
        layers = (nn.ModuleList(nn.Linear(12, 12, bias=False) for _ in range(2)) for _ in range(4))
        self.queries, self.keys, self.values, self.out = layers

    def forward(self, x):
        parts = zip(self.queries, self.keys, self.values, self.out, strict=True)
        for at, (query, key, value, out) in enumerate(parts):
            q, k, v = (layer(x).unflatten(-1, (3, 4)).transpose(1, 2) for layer in (query, key, value))
            positions = torch.arange(x.shape[1], dtype=x.dtype, device=x.device)
            if self.stuck and at == 1:
                positions = positions * 0
            q, k = turned(q, positions), turned(k, positions)
            future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
            weights = (q @ k.mT / 2).masked_fill(future, -torch.inf).softmax(-1)
            x = x + out((weights @ v).transpose(1, 2).flatten(2))
        return x


def examined(stuck):
    torch.manual_seed(0)
    return diagnose(Twice(stuck=stuck), torch.randn(2, 5, 12), num_heads=3)


def test_angles_of_the_first_position_everywhere_are_found_in_a_part_of_a_method():
    assert examined(stuck=True).mistakes == ("rotary-unused",)


def test_angles_of_own_positions_are_right_in_each_part():
    report = examined(stuck=False)
    assert report.ok, report.in_words()
