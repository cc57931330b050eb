"""A matrix for heads that is applied to the axis of the queries or of the keys, where there are as many tokens."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.bank.parts import Parts
from tests.diagnosis.marked_lines import marked


class Talking(Parts):
    """Scores whose last axis is that of the heads, of the queries or of the keys when a matrix is applied to it."""

    def __init__(self, axis: int):
        super().__init__(heads=4)
        self.talk, self.axis = nn.Linear(4, 4), axis

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k).transpose(self.axis, -1)
        scores = self.talk(scores).transpose(self.axis, -1)  # wrong
        return self.merge(scores.softmax(-1) @ v)


class Residual(Parts):
    """Adds to the scores and to the weights what a matrix makes of the heads."""

    def __init__(self, scale: float):
        super().__init__()
        self.before, self.after, self.scale = nn.Conv2d(3, 3, 1, bias=False), nn.Conv2d(3, 3, 1, bias=False), scale

    def forward(self, x):
        q, k, v = self.qkv(x)
        scores = self.scores(q, k) * self.scale
        weights = (scores + self.before(scores)).softmax(-1)
        return self.merge((weights + self.after(weights)) @ v)


@pytest.mark.parametrize(("scale", "mistakes"), [(1.0, ()), (3.0, ("wrong-scale",))])
def test_what_is_combined_may_be_added_to_the_heads(scale, mistakes):
    torch.manual_seed(3)
    report = diagnose(Residual(scale), torch.randn(2, 6, 10), num_heads=3, causal=False, normalised=False)
    assert report.mistakes == mistakes, report


def examined(axis):
    torch.manual_seed(3)
    return diagnose(Talking(axis).eval(), torch.randn(2, 4, 10), num_heads=4, causal=False, lengths=[4])


def test_heads_may_be_combined():
    assert examined(1).ok


@pytest.mark.one_in(2)
@pytest.mark.parametrize("axis", [2, 3], ids=["queries", "keys"])
def test_tokens_in_place_of_heads_are_found(axis):
    (finding,) = examined(axis).findings
    assert finding.title.endswith("scores of tokens are combined in place of those of heads.")
    assert {finding.where} == marked(Talking)
