"""The factor between score products and softmax is judged where something is added to the scores, too."""

import math

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

BATCH, TOKENS, HEADS, HEAD_DIM = 2, 6, 5, 4
WIDTH = HEADS * HEAD_DIM


class Relative(nn.Module):
    """Causal attention whose scores get a second product, of the queries and a vector per distance."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.distances = nn.Parameter(torch.randn(32, 32, HEAD_DIM))

    def more(self, queries, x):
        tokens = x.shape[1]
        return torch.einsum("bhqd,qkd->bhqk", queries, self.distances[:tokens, :tokens])

    def scaled(self, scores):
        return scores / math.sqrt(HEAD_DIM)

    def forward(self, x):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = queries @ keys.mT + self.more(queries, x)  # unscaled
        scores = self.scaled(scores)
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


class Capped(Relative):
    """Its scores are bounded by 2, as those of Gemma 2 are by 50."""

    def scaled(self, scores):
        return 2 * torch.tanh(super().scaled(scores) / 2)


class UnscaledBeforeCap(Capped):
    def scaled(self, scores):
        return 2 * torch.tanh(scores / 2)


class Squashed(Capped):
    """A tanh that is no cap: small scores come out multiplied by 4."""

    def scaled(self, scores):
        return 2 * torch.tanh(super().scaled(scores) * 2)


def examined(code, **options):
    torch.manual_seed(0)
    return diagnose(code(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS, **options)


def test_a_scale_that_is_missing_before_a_cap_is_named():
    report = examined(UnscaledBeforeCap)
    assert report.mistakes == ("missing-scale",), report
    assert str(report.findings[0].where) in marked(Relative, "unscaled"), report


def test_a_tanh_that_multiplies_is_no_cap():
    report = examined(Squashed)
    assert report.ok and "the scale of the scores was not judged" in str(report), report


class Parametrised(nn.Module):
    """Causal attention whose layers divide their products by the root of their input's width themselves."""

    after = HEAD_DIM**-0.5

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        rows = [self.scaled(layer, x) for layer in (self.q, self.k, self.v)]
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in rows)
        scores = q @ k.mT * self.after
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        return self.scaled(self.out, (weights @ v).transpose(1, 2).flatten(2))

    def scaled(self, layer, x):
        return layer(x) / x.shape[-1] ** 0.5


def test_layers_that_scale_their_products_themselves_are_right():
    report = diagnose(Parametrised(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS)
    assert report.ok, report.in_words()


class Distances(Relative):
    """Scores are negative squared distances, without the square of the query, which softmax removes."""

    def __init__(self, square):
        super().__init__()
        self.square = square

    def forward(self, x):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = self.scaled(2 * (queries @ keys.mT) - self.square(keys).sum(-1)[..., None, :])
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


@pytest.mark.parametrize("square", [torch.square, lambda keys: keys * keys], ids=["square", "product"])
def test_the_scale_of_distances_is_not_judged(square):
    report = diagnose(Distances(square), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS)
    assert report.ok and "the scale of the scores was not judged" in report.verdict, report


class ScaledAfterSoftmax(Relative):
    def forward(self, x):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = queries @ keys.mT
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        weights = scores.softmax(-1) / math.sqrt(HEAD_DIM)  # late
        return self.out((weights @ values).transpose(1, 2).flatten(2))


def test_a_scale_behind_softmax_is_pointed_at():
    torch.manual_seed(0)
    (finding,) = diagnose(ScaledAfterSoftmax(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS).findings
    assert finding.mistake == "missing-scale" and "the weights are scaled instead and sum to 0.5000" in finding.evidence
    assert str(finding.where) in marked(ScaledAfterSoftmax, "late")
