"""Attention in parts beside each other, over pairs of tokens, over groups, and over some tokens only."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

D, HEADS = 12, 3


def some_x(*sizes):
    return torch.randn(*sizes, D, generator=torch.Generator().manual_seed(3))


class OverPairs(nn.Module):
    """Each pair (i, j) attends to the pairs (j, k), and to the pairs (k, i)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.after, self.before, self.out = nn.Linear(D, 3 * D), nn.Linear(D, 3 * D), nn.Linear(2 * D, D)

    def forward(self, pairs):
        q, k, v = (part.unflatten(-1, (HEADS, -1)) for part in self.after(pairs).chunk(3, dim=-1))
        weights = (torch.einsum("bijhd,bjkhd->bijkh", q, k) * q.shape[-1] ** -0.5).softmax(dim=3)
        after = torch.einsum("bijkh,bjkhd->bijhd", weights, v)
        q, k, v = (part.unflatten(-1, (HEADS, -1)) for part in self.before(pairs).chunk(3, dim=-1))
        weights = (torch.einsum("bijhd,bkihd->bijkh", q, k) * q.shape[-1] ** -0.5).softmax(dim=3)
        before = torch.einsum("bijkh,bkihd->bijhd", weights, v)
        return self.out(torch.cat([after.flatten(3), before.flatten(3)], dim=-1))


@pytest.mark.slow
def test_pairs_that_see_the_pairs_of_a_row_and_of_a_column_are_right():
    report = diagnose(OverPairs(), some_x(2, 4, 4), num_heads=HEADS, causal=False)
    assert report.ok, report
    assert any("different groups" in remark for remark in report.remarks), report
    assert not diagnose(OverPairs(), some_x(2, 4, 4), num_heads=4, causal=False).ok


class Crossing(nn.Module):
    """One softmax over the row and the column of a token, which is hidden in its column."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.query, self.key, self.value = (nn.Linear(D, D) for _ in range(3))

    def forward(self, x):
        q, k, v = self.query(x) * D**-0.5, self.key(x), self.value(x)
        in_row = torch.einsum("bijd,bikd->bijk", q, k)
        own = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)[None, :, None]
        in_column = torch.einsum("bijd,bkjd->bijk", q, k).masked_fill(own, -torch.inf)
        column, row = torch.cat([in_column, in_row], dim=-1).softmax(dim=-1).split([x.shape[1], x.shape[2]], dim=-1)
        return x + torch.einsum("bijk,bkjd->bijd", column, v) + torch.einsum("bijk,bikd->bijd", row, v)


def test_a_row_and_a_column_in_one_softmax_are_one_head():
    report = diagnose(Crossing(), some_x(2, 3, 4), causal=False)
    assert report.ok, report
