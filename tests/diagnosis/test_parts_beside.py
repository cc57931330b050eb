"""Attention in parts beside each other, over pairs of tokens, over groups, and over some tokens only."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose

D, HEADS = 12, 3


def some_x(*sizes):
    return torch.randn(*sizes, D, generator=torch.Generator().manual_seed(3))


def split(x, heads=HEADS):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Packed(nn.Module):
    """A layer for queries, keys and values, and one for the outputs, which are `wide` times as wide."""

    def __init__(self, wide=1):
        super().__init__()
        torch.manual_seed(5)
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(wide * D, D)

    def roles(self, x):
        return (split(part) for part in self.qkv(x).chunk(3, dim=-1))


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


def test_pairs_that_see_the_pairs_of_a_row_and_of_a_column_are_right():
    report = diagnose(OverPairs(), some_x(2, 4, 4), num_heads=HEADS, causal=False)
    assert report.ok, report
    assert any("different groups" in remark for remark in report.remarks), report
    assert not diagnose(OverPairs(), some_x(2, 4, 4), num_heads=4, causal=False).ok


class InChunks(Packed):
    """Tokens attend to those of their own chunk; with a mask if it `hides`."""

    def __init__(self, hides=False):
        super().__init__()
        self.hides = hides

    def forward(self, x):
        chunks = x.reshape(-1, 3, D)
        if not self.hides:
            q, k, v = self.roles(chunks)
            return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))
        q, k, v = self.roles(x)
        of = torch.arange(x.shape[1], device=x.device) // 3
        found = F.scaled_dot_product_attention(q, k, v, attn_mask=of[:, None] == of)
        return self.out(found.transpose(1, 2).reshape(x.shape))


def test_tokens_that_are_compared_in_chunks_only_are_meant_and_a_mask_of_chunks_is_not():
    x, given = some_x(2, 6), {"causal": False, "num_heads": HEADS, "lengths": [6]}
    assert diagnose(InChunks(), x, **given).ok
    assert "should be seen are not" in str(diagnose(InChunks(hides=True), x, **given))


class InGroups(nn.Module):
    """Two neighbours are one query, key and value, whose heads are cut from both at once."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.query, self.key, self.value, self.out = (nn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        parts = (layer(x).reshape(len(x), -1, HEADS, 2 * D // HEADS) for layer in (self.query, self.key, self.value))
        q, k, v = (part.transpose(1, 2) for part in parts)
        weights = (q @ k.mT * q.shape[-1] ** -0.5).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(x.shape))


def test_rows_of_two_tokens_are_no_heads_that_are_cut_wrongly():
    report = diagnose(InGroups(), some_x(2, 6), num_heads=HEADS, causal=False, lengths=[6])
    assert not report.mistakes or report.mistakes == (None,), report
    assert report.exit_status != 1, report


class WithEdges(Packed):
    """The scores, which features of pairs are added to, make new features of pairs, unless these are dropped."""

    def __init__(self, returns=True):
        super().__init__()
        self.of_edges, self.to_edges, self.returns = nn.Linear(4, HEADS), nn.Linear(HEADS, 4), returns

    def forward(self, x, edges):
        q, k, v = self.roles(x)
        scores = q @ k.mT * q.shape[-1] ** -0.5 + self.of_edges(edges).permute(0, 3, 1, 2)
        made = self.to_edges(scores.permute(0, 2, 3, 1))
        return self.out((scores.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)), made if self.returns else edges


@pytest.mark.parametrize("returns", [True, False])
def test_a_layer_of_the_pairs_that_are_returned_too_is_not_dead(returns):
    def call(code, x):
        return code(x, x[:, :, None, :4] - x[:, None, :, 4:8])[0]

    report = diagnose(WithEdges(returns), some_x(2, 5), num_heads=HEADS, causal=False, call=call)
    assert report.mistakes == (() if returns else ("dead-parameter",)), report


class OneRow(nn.Module):
    """One query, which the caller gives, reads all tokens; products of elements are summed into its scores."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.query, self.kv = nn.Linear(D, D), nn.Linear(D, 2 * D)

    def forward(self, query, x):
        key, value = self.kv(x).chunk(2, dim=-1)
        weights = ((self.query(query) * D**-0.5 * key).sum(dim=-1)).softmax(dim=-1)
        return query + (weights[..., None] * value).sum(dim=1, keepdim=True)


def test_one_row_for_all_tokens_is_no_mistake():
    report = diagnose(OneRow(), some_x(2, 6), causal=False, call=lambda code, x: code(x.new_ones(1, 1, D), x))
    assert report.exit_status == 2, report


class OfBothHalves(Packed):
    """Each half of the tokens reads the other half, too, beside all tokens."""

    def __init__(self):
        super().__init__(wide=2)
        self.other = nn.Linear(D, 3 * D)

    def forward(self, x):
        def attend(q, k, v):
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

        every = attend(*self.roles(x))
        first, last = zip(*(split(part).chunk(2, dim=2) for part in self.other(x).chunk(3, dim=-1)), strict=True)
        across = torch.cat([attend(last[0], *first[1:]), attend(first[0], *last[1:])], dim=1)
        return self.out(torch.cat([across, every], dim=-1))


def test_results_of_two_queries_in_one_row_are_no_reshape():
    report = diagnose(OfBothHalves(), some_x(2, 6), num_heads=HEADS, causal=False, lengths=[6])
    assert report.ok, report


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
