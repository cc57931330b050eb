"""Attention as packages of published models build it: what is right there is not accused, and a mistake still is."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(3)

HEADS, HEAD_DIM, D = 3, 4, 12
X = torch.randn(2, 6, D, generator=torch.Generator().manual_seed(0))


class Base(nn.Module):
    """Projections of queries, keys and values, and of the heads' results."""

    def __init__(self, mistake=""):
        super().__init__()
        torch.manual_seed(1)
        self.mistake = mistake
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(D, D) for _ in range(4))

    def split(self, x):
        parts = (self.to_q(x), self.to_k(x), self.to_v(x))
        return [part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts]

    def merge(self, heads):
        crossed = self.mistake == "merge"
        return self.to_out(heads.reshape(len(heads), -1, D) if crossed else heads.transpose(1, 2).flatten(2))


class Conformer(Base):
    """Attention, then a convolution over the tokens, as in speech encoders."""

    def __init__(self, mistake="", kernel=3):
        super().__init__(mistake)
        self.norm = nn.LayerNorm(D)
        self.conv = nn.Conv1d(D, D, kernel, padding=kernel // 2, groups=D)

    def forward(self, x):
        x = x + self.merge(F.scaled_dot_product_attention(*self.split(x)))
        return x + self.conv(self.norm(x).mT).mT


@pytest.mark.parametrize("kernel", [1, 3])
def test_a_wrong_merge_before_a_convolution_is_found(kernel):
    report = diagnose(Conformer("merge", kernel), X, causal=False, num_heads=HEADS)
    assert report.mistakes == ("merge-without-transpose",), report


class ExchangesAxes(Base):
    """Attention over a grid of tokens, whose rows and columns are exchanged in the output."""

    def forward(self, x):
        q, k, v = self.split(x.flatten(1, 2))
        tokens = self.merge(F.scaled_dot_product_attention(q, k, v))
        return tokens.view(len(x), x.shape[2], x.shape[1], D)


def test_a_grid_with_exchanged_axes_is_no_smaller_grid():
    x = torch.randn(2, 2, 3, D)
    (finding,) = diagnose(ExchangesAxes(), x, num_heads=HEADS, causal=False).findings
    assert finding.examined and "there is no row of the output for each token" in finding.title
