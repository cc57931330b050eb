"""Attention as packages of published models build it: what is right there is not accused, and a mistake still is."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

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


def test_a_convolution_behind_attention_is_no_wrong_merge():
    report = diagnose(Conformer(), X, causal=False, num_heads=HEADS)
    assert report.ok and "convolves over the tokens, so that an output depends on several queries" in str(report), (
        report
    )


@pytest.mark.parametrize("kernel", [1, 3])
def test_a_wrong_merge_before_a_convolution_is_found(kernel):
    report = diagnose(Conformer("merge", kernel), X, causal=False, num_heads=HEADS)
    assert report.mistakes == ("merge-without-transpose",), report


class Areas(nn.Module):
    """The pixels of a grid see those of their own half of it; a convolution of the values shows all of them."""

    def __init__(self, mistake=""):
        super().__init__()
        torch.manual_seed(1)
        self.mistake, self.to_out = mistake, nn.Linear(D, D)
        self.to_qkv, self.near = nn.Linear(D, 3 * D), nn.Conv2d(D, D, 7, padding=3, groups=D)

    def forward(self, grid):
        batch, _, rows, columns = grid.shape
        parts = self.to_qkv(grid.flatten(2).mT).reshape(2 * batch, -1, 3, HEADS, HEAD_DIM)  # each half a sample
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scale = 1.0 if self.mistake == "scale" else HEAD_DIM**-0.5
        found, values = (
            one.transpose(1, 2).reshape(batch, -1, D).mT.unflatten(2, (rows, columns))
            for one in ((q @ k.mT * scale).softmax(-1) @ v, v)
        )
        return self.to_out((found + self.near(values)).movedim(1, -1)).movedim(-1, 1)


@pytest.mark.parametrize(("mistake", "found"), [("", ()), ("scale", ("missing-scale",))])
def test_areas_of_a_grid_beside_a_convolution_are_no_hidden_tokens(mistake, found):
    grid = torch.randn(2, D, 4, 2, generator=torch.Generator().manual_seed(0))
    report = diagnose(Areas(mistake), grid, causal=False, num_heads=HEADS)
    assert report.mistakes == found, report
    assert mistake or "in 2 groups" in str(report.remarks), report
