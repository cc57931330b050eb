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


class Block(Base):
    """Cross-attention with a residual connection."""

    def forward(self, queries, rows):
        (q, _, _), (_, k, v) = self.split(queries), self.split(rows)
        q = q / HEAD_DIM**0.5 if self.mistake == "scale" else q
        return queries + self.merge(F.scaled_dot_product_attention(q, k, v))


class Induced(nn.Module):
    """Learned rows read the tokens, and the tokens, or nobody, read what these found."""

    def __init__(self, num_rows, mistake=("", ""), pooled=False):
        super().__init__()
        self.rows, self.pooled = nn.Parameter(torch.randn(1, num_rows, D)), pooled
        self.collect, self.spread = (Block(one) for one in mistake)

    def forward(self, x):
        found = self.collect(self.rows.expand(len(x), -1, -1), x)
        return found if self.pooled else self.spread(x, found)


class InducedByPyTorch(Induced):
    """The same with PyTorch's layer, which puts the tokens on the first axis."""

    def __init__(self, num_rows, pooled=False):
        super().__init__(num_rows, pooled=pooled)
        self.collect, self.spread = (Packaged() for _ in range(2))


class Packaged(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.attn = nn.MultiheadAttention(D, HEADS, batch_first=True)

    def forward(self, queries, rows):
        return queries + self.attn(queries, rows, rows, need_weights=False)[0]


@pytest.mark.parametrize("num_rows", [2, 3])
def test_learned_rows_of_pytorchs_layer_are_told_from_samples(num_rows):
    report = diagnose(InducedByPyTorch(num_rows, pooled=True), X, causal=False, num_heads=HEADS)
    assert report.ok, report


@pytest.mark.parametrize(("mistake", "found"), [(("", ""), ()), (("scale", ""), ("wrong-scale",))])
def test_learned_rows_that_are_added_again_are_no_dead_parameter(mistake, found):
    report = diagnose(Induced(4, mistake), X, causal=False, num_heads=HEADS)
    assert report.mistakes == found and len(report.attentions) == 2, report


@pytest.mark.parametrize(("mistake", "found"), [("", ()), ("scale", ("wrong-scale",))])
@pytest.mark.parametrize("num_rows", [1, 2, 3])
def test_learned_rows_may_be_as_many_as_samples(num_rows, mistake, found):
    report = diagnose(Induced(num_rows, (mistake, ""), pooled=True), X, causal=False, num_heads=HEADS)
    assert report.mistakes == found, report


class TwoStages(nn.Module):
    """Each row of a grid attends along itself; then its columns do, by way of learned rows."""

    def __init__(self, mistake=""):
        super().__init__()
        self.along, self.collect, self.spread = Block(), Block(), Block(mistake)
        self.rows = nn.Parameter(torch.randn(4, 2, D))

    def forward(self, grid):
        batch, num_rows = grid.shape[:2]
        x = grid.flatten(0, 1)
        x = self.along(x, x).unflatten(0, (batch, num_rows)).transpose(1, 2).flatten(0, 1)
        x = self.spread(x, self.collect(self.rows.repeat(batch, 1, 1), x))
        return x.unflatten(0, (batch, -1)).transpose(1, 2)


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "found"), [("", ()), ("scale", ("wrong-scale",))])
def test_what_an_earlier_attention_is_made_of_is_not_dead_in_a_later_one(mistake, found):
    grid = torch.randn(2, 3, 4, D, generator=torch.Generator().manual_seed(0))
    report = diagnose(TwoStages(mistake), grid, causal=False, num_heads=HEADS)
    assert report.mistakes == found and len(report.attentions) == 3, report


class PooledQueries(Base):
    """The queries of a grid are pooled, so that the output is a smaller grid."""

    def forward(self, grid):
        q, k, v = self.split(grid.flatten(1, 2))
        pooled = q.mT.flatten(1, 2).unflatten(2, grid.shape[1:3])  # (batch, width, row, column)
        q = F.max_pool2d(pooled, 2).flatten(2).unflatten(1, (HEADS, HEAD_DIM)).mT
        found = self.merge(F.scaled_dot_product_attention(q, k, v))
        return found.unflatten(1, (grid.shape[1] // 2, -1))


def test_a_smaller_grid_of_pooled_queries_is_not_accused():
    grid = torch.randn(2, 4, 6, D, generator=torch.Generator().manual_seed(0))
    report = diagnose(PooledQueries(), grid, causal=False, num_heads=HEADS)
    assert report.exit_status == 0, report


class Kept(Base):
    """What a statement computes is kept by a call that Python has no source of, for the backward pass."""

    def forward(self, x):
        q, k, v = self.split(x)
        kept = []
        kept.append((q * 2).detach())
        if self.mistake == "dropped":
            q.clamp(-9, 9)
        return self.merge(F.scaled_dot_product_attention(q, k, v))


@pytest.mark.parametrize(("mistake", "found"), [("", ()), ("dropped", ("value-unused",))])
def test_what_a_call_keeps_is_no_dropped_result(mistake, found):
    assert diagnose(Kept(mistake), X, causal=False, num_heads=HEADS).mistakes == found


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.act, self.narrow = nn.Linear(D, 20), nn.Tanh(), nn.Linear(20, D)

    def forward(self, x):
        return self.narrow(self.act(self.wide(x)))


class Layer(Base):
    """Keeps what its feed-forward part, which runs on request, has, too."""

    def __init__(self, mistake=""):
        super().__init__(mistake)
        self.activation = nn.Tanh()
        self.feed_forward = nn.Linear(D, D) if mistake else FeedForward()

    def forward(self, x, deep=False):
        x = x + self.merge(F.scaled_dot_product_attention(*self.split(x)))
        return self.feed_forward(x) if deep else x


@pytest.mark.parametrize(("mistake", "found"), [("", ()), ("idle", ("dead-parameter",))])
def test_an_activation_that_a_part_has_again_is_no_dead_part(mistake, found):
    assert diagnose(Layer(mistake), X, causal=False, num_heads=HEADS).mistakes == found


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
