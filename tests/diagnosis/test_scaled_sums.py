"""Scores that are scaled inside the sum of products, and the reason why a scale was not judged."""

import torch
from torch import nn

from course_lib.diagnosis import diagnose

X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(0))


class Summed(nn.Module):
    """Attention of 3 heads of width 4 whose products are scaled before their sum."""

    def __init__(self, scale, bend=None):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(12, 12) for _ in range(3))
        self.scale, self.bend = scale, bend or nn.Identity()

    def forward(self, x):
        q, k, v = (self.bend(f(x)).unflatten(-1, (3, 4)).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = (q.unsqueeze(3) * k.unsqueeze(2) * self.scale).sum(-1).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2)


def test_the_reason_why_the_scale_was_not_judged_names_what_bends_the_projections():
    report = diagnose(Summed(0.5, nn.ReLU()), X, causal=False, num_heads=3)
    assert report.ok and "queries or keys go through `relu` behind their projections" in report.not_judged[0], report
