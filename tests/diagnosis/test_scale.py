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


class Unscaled(Relative):
    def scaled(self, scores):
        return scores


class ScaledByTheWidth(Relative):
    def scaled(self, scores):
        return scores / math.sqrt(WIDTH)  # wrong


class ScaledForTwo(Relative):
    """Both products together are sums of twice as many numbers."""

    def scaled(self, scores):
        return scores / math.sqrt(2 * HEAD_DIM)


class TwoProducts(Relative):
    """Each query has a second product with other keys of the same tokens."""

    def __init__(self):
        super().__init__()
        self.more_keys = nn.Linear(WIDTH, WIDTH)

    def more(self, queries, x):
        return queries @ self.more_keys(x).unflatten(-1, (HEADS, -1)).permute(0, 2, 3, 1)

    def scaled(self, scores):
        return scores * 0.3


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


@pytest.mark.parametrize("code", [Relative, ScaledForTwo, Capped])
def test_right_scales_of_a_sum_pass(code):
    report = examined(code)
    assert report.ok and "not judged" not in str(report), report


def test_a_scale_that_is_missing_beside_added_positions_is_named():
    report = examined(Unscaled)
    assert report.mistakes == ("missing-scale",), report
    assert "head_dim is 4, so they should be multiplied by 0.5000" in report.findings[0].evidence, report
    assert str(report.findings[0].where) in marked(Relative, "unscaled"), report


def test_a_scale_that_is_missing_before_a_cap_is_named():
    report = examined(UnscaledBeforeCap)
    assert report.mistakes == ("missing-scale",), report
    assert str(report.findings[0].where) in marked(Relative, "unscaled"), report


def test_a_tanh_that_multiplies_is_no_cap():
    report = examined(Squashed)
    assert report.ok and "the scale of the scores was not judged" in str(report), report


def test_a_wrong_scale_beside_added_positions_is_named():
    report = examined(ScaledByTheWidth)
    assert report.mistakes == ("wrong-scale",), report
    assert "scores are multiplied by 0.2236" in report.findings[0].evidence, report
    assert str(report.findings[0].where) in marked(ScaledByTheWidth), report


def test_one_factor_for_several_products_is_judged_only_against_a_given_one():
    report = examined(TwoProducts)
    assert report.ok and "it is 0.3 of a sum of several products; give `scale`" in str(report), report
    assert examined(TwoProducts, scale=0.3).ok
    assert examined(TwoProducts, scale=0.5).mistakes == ("wrong-scale",)


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


class ScaledThrice(Parametrised):
    """The scale is put on the packed queries, keys and values, and on no score."""

    after = 1.0

    def scaled(self, layer, x):
        return layer(x) * HEAD_DIM**-0.5


def test_layers_that_scale_their_products_themselves_are_right():
    report = diagnose(Parametrised(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS)
    assert report.ok, report.in_words()


def test_a_scale_on_queries_keys_and_values_alike_is_wrong():
    report = diagnose(ScaledThrice(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS)
    assert report.mistakes == ("wrong-scale",), report.in_words()


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


def test_the_scale_beside_a_term_of_the_keys_is_judged():
    report = diagnose(Distances(torch.abs), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS)
    assert report.mistakes == ("missing-scale",), "twice a half is 1, as without a scale"


class ScaledByTheWidthOfTokens(Relative):
    def forward(self, x):
        samples, tokens, width = x.shape
        queries, keys, values = self.qkv(x).view(samples, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = queries @ keys.mT * width**-0.5  # wrong
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


def test_a_size_of_the_input_is_not_at_fault_for_its_use():
    report = diagnose(ScaledByTheWidthOfTokens(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS)
    assert report.mistakes == ("wrong-scale",) and {report.findings[0].where} == marked(ScaledByTheWidthOfTokens)


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
