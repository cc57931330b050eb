"""Rotations by cosines and sines that the caller gives, whole and token by token."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked

BATCH, TOKENS, HEADS, HEAD_DIM = 2, 6, 3, 8
WIDTH = HEADS * HEAD_DIM


def tables(tokens, start=0):
    """Cosines and sines of Llama's angles, each (token, head_dim)."""
    rates = 10000.0 ** -(torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = torch.outer(torch.arange(start, start + tokens), rates).repeat(1, 2)
    return angles.cos(), angles.sin()


def turned(t, cos, sin):
    first, second = t.chunk(2, dim=-1)
    return t * cos + torch.cat([-second, first], dim=-1) * sin


GIVEN = tables(64)  # made before any run


class Rotated(nn.Module):
    """Causal attention that gets its tables, and keeps its keys if it gets a list for them."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def rotate(self, queries, keys, cos, sin):
        return turned(queries, cos, sin), turned(keys, cos, sin)

    def forward(self, x, cos, sin, past=None):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        queries, keys = self.rotate(queries, keys, cos, sin)
        if past is not None:
            past.append((keys, values))
            keys, values = (torch.cat(each, dim=2) for each in zip(*past, strict=True))
        scores = queries @ keys.mT * HEAD_DIM**-0.5
        tokens, context = scores.shape[-2:]
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(context - tokens + 1)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        return self.out((weights @ values).transpose(1, 2).flatten(2))


class ThrownAway(Rotated):
    def rotate(self, queries, keys, cos, sin):
        rotated = turned(queries, cos, sin), turned(keys, cos, sin)  # noqa: F841  # wrong
        return queries, keys


class KeysForgotten(Rotated):
    def rotate(self, queries, keys, cos, sin):
        return turned(queries, cos, sin), keys


class OtherWay(Rotated):
    def rotate(self, queries, keys, cos, sin):
        return turned(queries, cos, sin), turned(keys, cos, -sin)


class SignForgotten(Rotated):
    def rotate(self, queries, keys, cos, sin):
        first, second = keys.chunk(2, dim=-1)
        return turned(queries, cos, sin), keys * cos + torch.cat([second, first], dim=-1) * sin  # wrong


def at_once(module, x):
    return module(x, *(table[: x.shape[1]].to(x) for table in GIVEN))


def token_by_token(module, x):
    past, rows = [], []
    for index in range(x.shape[1]):
        now = slice(index, index + 1)
        rows.append(module(x[:, now], *(table[now].to(x) for table in GIVEN), past))
    return torch.cat(rows, dim=1)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("code", "mistake", "call"),
    [
        (Rotated, None, at_once),
        (Rotated, None, token_by_token),
        (ThrownAway, "rotary-unused", at_once),
        (ThrownAway, "rotary-unused", token_by_token),
        (KeysForgotten, "rotary-unused", at_once),
        (KeysForgotten, "rotary-unused", token_by_token),
        (OtherWay, "rotary-wrong-turn", at_once),
        (OtherWay, "rotary-wrong-turn", token_by_token),
        (SignForgotten, "rotary-wrong-turn", at_once),
        (SignForgotten, "rotary-wrong-turn", token_by_token),
    ],
)
def test_rotations_by_given_tables(code, mistake, call):
    torch.manual_seed(0)
    report = diagnose(code(), torch.randn(BATCH, TOKENS, WIDTH), num_heads=HEADS, call=call)
    assert report.mistakes == ((mistake,) if mistake else ()), report
    if code in (ThrownAway, SignForgotten):
        assert report.findings[0].where in marked(code), report
    if code is ThrownAway:
        assert "the cosines and sines of the positions are given and never change the output" in str(report)
