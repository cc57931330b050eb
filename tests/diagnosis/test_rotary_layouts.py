"""Rotary positions of images and videos: grids of two and three axes, behind tokens that are not rotated."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

HEADS, HEAD_DIM, WIDTH = 2, 12, 17


def turned(t, angles, sign=1):
    first, second = t.chunk(2, dim=-1)
    return t * angles.cos() + sign * torch.cat([-second, first], dim=-1) * angles.sin()


def angles_on_grid(grid, tokens, x):
    """Return a third of the angles for each axis of (frame, row, column), (token, head_dim)."""
    _, rows, columns = grid
    index = torch.arange(tokens, device=x.device)
    places = torch.stack([index // (rows * columns), index // columns % rows, index % columns], dim=-1).to(x)
    rates = 10.0 ** -(torch.arange(2, device=x.device).to(x) / 2)
    return (places[:, :, None] * rates).flatten(1).repeat(1, 2)


class OnGrid(nn.Module):
    """Bidirectional attention over `still` tokens that are not rotated and those of a grid."""

    key_sign = 1

    def __init__(self, grid, still):
        super().__init__()
        self.grid, self.still = grid, still
        self.qkv, self.out = nn.Linear(WIDTH, 3 * HEADS * HEAD_DIM), nn.Linear(HEADS * HEAD_DIM, WIDTH)

    def angles(self, x):
        on_grid = angles_on_grid(self.grid, x.shape[1] - self.still, x)
        return torch.cat([on_grid.new_zeros(self.still, HEAD_DIM), on_grid])

    def forward(self, x):
        return self.attend(x, self.angles(x))

    def attend(self, x, angles):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = turned(queries, angles) @ turned(keys, angles, self.key_sign).mT * HEAD_DIM**-0.5
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


class OtherWay(OnGrid):
    key_sign = -1


class Given(OnGrid):
    def forward(self, x, angles):
        return self.attend(x, angles)


def examine(module, tokens, **options):
    x = torch.randn(2, tokens, WIDTH, generator=torch.Generator().manual_seed(1))
    return diagnose(module, x, num_heads=HEADS, causal=False, **options)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("grid", "still"), [((2, 2, 2), 0), ((2, 2, 2), 1), ((2, 2, 2), 4), ((2, 2, 3), 0), ((1, 2, 3), 5), ((1, 1, 5), 2)]
)
def test_positions_on_grids(grid, still):
    torch.manual_seed(0)
    tokens = still + grid[0] * grid[1] * grid[2]
    report = examine(OnGrid(grid, still), tokens, lengths=[tokens])
    assert report.ok, report
    report = examine(OtherWay(grid, still), tokens, lengths=[tokens])
    assert report.mistakes == ("rotary-wrong-turn",), report


def test_positions_that_the_call_computes():
    torch.manual_seed(0)

    def angles(x):
        places = torch.arange(x.shape[1] - 2, device=x.device).to(x) ** 2
        return torch.cat([places.new_zeros(2), places])[:, None] * places.new_tensor([1.3, 0.7] * 6)

    report = examine(Given((1, 1, 5), 2), 7, call=lambda module, x: module(x, angles(x)))
    assert report.ok, report


class KeptTables(nn.Module):
    """Rotates by tables that the first caller computes and that are kept in a dictionary."""

    def __init__(self):
        super().__init__()
        self.kept = {}

    def forward(self, t):
        if t.shape[-2] not in self.kept:
            angles = angles_on_grid((1, 1, 99), t.shape[-2], t)
            self.kept[t.shape[-2]] = angles.cos(), angles.sin()
        cos, sin = self.kept[t.shape[-2]]
        first, second = t.chunk(2, dim=-1)
        return t * cos + torch.cat([-second, first], dim=-1) * sin


class WithTables(nn.Module):
    def __init__(self, rope, *, applies=True):
        super().__init__()
        self.rope, self.applies = rope, applies
        self.qkv, self.out = nn.Linear(WIDTH, 3 * HEADS * HEAD_DIM), nn.Linear(HEADS * HEAD_DIM, WIDTH)

    def forward(self, x):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        queries, keys = (self.rope(queries), self.rope(keys)) if self.applies else (queries, keys)
        weights = (queries @ keys.mT * HEAD_DIM**-0.5).softmax(-1)
        return self.out((weights @ values).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("applies", "found"), [(True, ()), (False, ("rotary-unused",))])
def test_tables_that_another_layer_computed(applies, found):
    torch.manual_seed(0)
    rope = KeptTables()
    report = examine(nn.Sequential(WithTables(rope), WithTables(rope, applies=applies)), 6)
    assert report.mistakes == found, report


class Frozen(nn.Module):
    """Rotary positions of all columns, with frequencies kept as a parameter that is not trained, and an empty rest."""

    def __init__(self, interleaved):
        super().__init__()
        self.interleaved = interleaved
        self.qkv, self.out = nn.Linear(WIDTH, 3 * HEADS * HEAD_DIM), nn.Linear(HEADS * HEAD_DIM, WIDTH)
        rates = 10.0 ** -(torch.arange(HEAD_DIM // 2) / 2)
        self.rates = nn.Parameter(rates, requires_grad=False)

    def turn(self, t):
        t, rest = t[..., :HEAD_DIM], t[..., HEAD_DIM:]
        angles = torch.arange(t.shape[-2], device=t.device)[:, None] * self.rates
        angles = angles.repeat_interleave(2, dim=-1) if self.interleaved else angles.repeat(1, 2)
        return torch.cat([turned(t, angles), rest], dim=-1)

    def forward(self, x):
        queries, keys, values = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = self.turn(queries) @ self.turn(keys).mT * HEAD_DIM**-0.5
        return self.out((scores.softmax(-1) @ values).transpose(1, 2).flatten(2))


def test_frequencies_that_are_not_trained_are_judged():
    assert examine(Frozen(interleaved=False), 7).ok
    assert examine(Frozen(interleaved=True), 7).mistakes == ("rotary-wrong-turn",), "angles in pairs, turned in halves"
