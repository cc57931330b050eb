"""A value that no line reads costs time alone if the same numbers are computed again."""

import torch
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.diagnosis import diagnose


class RootNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2, self.attention = RootNorm(12), RootNorm(12), MultiHeadAttention(12, 12, 3)
        self.mlp = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 12))

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        self.norm_2(x)
        self.mlp(self.norm_2(x))
        return x + self.mlp(self.norm_2(x))


class LayerWithoutNorm(Layer):
    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        self.norm_2(x)
        return x + self.mlp(self.norm_1(x))


def test_what_is_computed_again_and_used_is_not_lost():
    report = diagnose(Layer(), torch.randn(2, 5, 12), num_heads=3)
    assert report.ok, report.in_words()


def test_another_norm_of_the_same_numbers_is_lost():
    report = diagnose(LayerWithoutNorm(), torch.randn(2, 5, 12), num_heads=3)
    assert report.mistakes == ("dead-parameter",), report.in_words()
