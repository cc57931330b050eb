"""The cause is named first, and its line: what is written into slots, thrown away, skipped or turned round."""

import math

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

pytestmark = pytest.mark.one_in(3)

BATCH, TOKENS, HEADS, HEAD_DIM, SLOTS, PROMPT = 2, 6, 3, 4, 12, 3
WIDTH = HEADS * HEAD_DIM


class Table(nn.Module):
    """Rotary positions whose cosines and sines stand in pairs, in a buffer with a name that says nothing."""

    def __init__(self):
        super().__init__()
        angles = torch.outer(torch.arange(float(SLOTS)), torch.tensor([1.0, 0.1]))
        self.register_buffer("cache", torch.stack((angles.cos(), angles.sin()), dim=-1))

    def forward(self, t, at):  # (batch, head, token, head_dim)
        cosines, sines = self.cache[at].to(t).unbind(-1)
        even, odd = t.unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((even * cosines - odd * sines, odd * cosines + even * sines), dim=-1).flatten(-2)


class Slots(nn.Module):
    """Right attention with a cache of slots; the classes below replace its parts."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.turn = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), Table()

    def forward(self, x, at, kept):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        q, k, v = self.positions(q, k, v, at)
        k, v = self.write(k, v, at, kept)
        return self.out(self.merge(self.weigh(q, k, v, at), x))

    def positions(self, q, k, v, at):
        return self.turn(q, at), self.turn(k, at), v

    def write(self, k, v, at, kept):
        kept[0][:, :, at] = k
        kept[1][:, :, at] = v
        return kept[0], kept[1]

    def weigh(self, q, k, v, at):
        hidden = torch.arange(k.shape[2], device=at.device) > at[:, None]
        return (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v

    def merge(self, context, x):
        return context.transpose(1, 2).reshape(x.shape)


def decode(module, x):
    kept = [x.new_zeros(len(x), HEADS, SLOTS, HEAD_DIM) for _ in range(2)]
    at = torch.arange(x.shape[1], device=x.device)
    return torch.cat([module(x[:, one], one, kept) for one in (at[:PROMPT], *at[PROMPT:].split(1))], dim=1)


def draw(cls, **options):
    torch.manual_seed(1)
    return diagnose(cls(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS, **options)


class ReadsBeforeItself(Slots):
    def write(self, k, v, at, kept):
        start = int(at[0])
        kept[0][:, :, start : start + 1] = k
        kept[1][:, :, start : start + 1] = v
        return kept[0][:, :, :start], kept[1][:, :, :start]


@pytest.mark.slow
def test_an_empty_cache_is_examined():
    def one_by_one(module, x):
        kept = [x.new_zeros(len(x), HEADS, SLOTS, HEAD_DIM) for _ in range(2)]
        return torch.cat([module(x[:, at : at + 1], torch.tensor([at]), kept) for at in range(x.shape[1])], dim=1)

    assert draw(ReadsBeforeItself, call=one_by_one).mistakes == ("token-missing-from-cache",)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def heads(self, x):
        return self.qkv(x).unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)

    def weigh(self, x, hidden=None):
        q, k, v = self.heads(x)
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        hidden = torch.ones_like(scores[0, 0]).triu(1) > 0 if hidden is None else hidden
        return (scores.masked_fill(hidden, -torch.inf).softmax(dim=-1) @ v).transpose(1, 2).flatten(2)

    def forward(self, x):
        return self.out(self.weigh(x))


class DropsTheResult(Plain):
    def forward(self, x):
        x + self.out(self.weigh(x))  # dropped
        return torch.tanh(x)


def test_a_result_that_is_thrown_away():
    report = draw(DropsTheResult)
    assert report.mistakes == ("value-unused",)
    assert report.findings[0].where in marked(DropsTheResult, "dropped")


class MultipliesByZero(Plain):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(HEADS, 1, SLOTS))

    def forward(self, x):
        q, k, v = self.heads(x)
        scores = q @ k.mT / math.sqrt(HEAD_DIM) + self.bias[:, :, : x.shape[1]]
        scores = scores * torch.ones_like(scores[0, 0]).tril()  # zeroed
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2))


def test_scores_with_a_bias_are_multiplied_by_zero():
    report = draw(MultipliesByZero)
    assert report.mistakes == ("mask-with-zero",)
    assert report.findings[0].where in marked(MultipliesByZero, "zeroed")


class NeverWritesValues(Slots):
    def write(self, k, v, at, kept):
        kept[0][:, :, at] = k
        return kept[0], kept[1]


def test_values_that_are_never_written():
    assert draw(NeverWritesValues, call=decode).mistakes[0] == "stale-cache"


class KeepsOneHeadsWeights(Plain):
    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, HEAD_DIM)).unbind(2)  # (batch, token, head, head_dim)
        scores = torch.einsum("bqhd,bkhd->bqkh", q, k) / math.sqrt(HEAD_DIM)
        hidden = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1) > 0
        weights = scores.masked_fill(hidden[..., None], -torch.inf).softmax(dim=2)[..., :1]  # one head
        return self.out(torch.einsum("bqkh,bkhd->bqhd", weights, v).flatten(2))


def test_the_weights_of_one_head_for_all():
    report = draw(KeepsOneHeadsWeights)
    assert report.mistakes == ("heads-share-scores",)
    assert report.findings[0].where in marked(KeepsOneHeadsWeights, "one head")
