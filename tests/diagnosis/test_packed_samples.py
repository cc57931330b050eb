"""Samples that are packed into one row, as for kernels of varying lengths: each sees its own tokens alone."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(2)


class Packed(nn.Module):
    """Attention over the tokens of all samples in one row, with a mask that keeps the samples apart."""

    def __init__(self, apart: bool = True):
        super().__init__()
        self.apart = apart
        self.q, self.k, self.v, self.out = (nn.Linear(12, 12) for _ in range(4))

    def forward(self, x, context=None):
        context = x if context is None else context
        q = self.q(x).reshape(1, -1, 3, 4).transpose(1, 2)
        k, v = (layer(context).reshape(1, -1, 3, 4).transpose(1, 2) for layer in (self.k, self.v))
        samples = torch.arange(len(x), device=x.device)
        own = samples.repeat_interleave(x.shape[1])[:, None] == samples.repeat_interleave(context.shape[1])
        mask = own if self.apart else torch.ones_like(own)
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(out.transpose(1, 2).reshape(x.shape))


def examined(module, **options):
    torch.manual_seed(8)
    return diagnose(module.eval(), torch.randn(2, 5, 12), num_heads=3, causal=False, **options)


def across(module):
    return examined(module, context=torch.randn(2, 7, 12), call=lambda code, x, c: code(x, c))


@pytest.mark.parametrize("way", [examined, across])
def test_samples_that_are_kept_apart_are_right(way):
    report = way(Packed())
    assert report.ok, report.in_words()


@pytest.mark.parametrize("way", [examined, across])
def test_samples_that_see_each_other_are_wrong(way):
    report = way(Packed(apart=False))
    assert report.exit_status == 1 and report.mistakes[0] in ("batch-mixed", "fixed-batch"), report.in_words()


class RotatedRows(nn.Module):
    """Causal grouped-query attention with rotary positions over rows of tokens, (token, width), of all samples."""

    def __init__(self, causal: bool = True):
        super().__init__()
        self.causal = causal
        self.q, self.out = nn.Linear(24, 24, bias=False), nn.Linear(24, 24, bias=False)
        self.k, self.v = (nn.Linear(24, 12, bias=False) for _ in range(2))

    def forward(self, x, turns, lengths):
        q, k, v = (layer(x).view(len(x), -1, 6) for layer in (self.q, self.k, self.v))
        q, k = (self.turned(one, turns) for one in (q, k))
        k, v = (one[:, :, None].expand(-1, -1, 2, -1).reshape(len(x), 4, 6) for one in (k, v))
        of = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).to(x.device)
        keep = of[:, None] == of
        keep = keep.tril() if self.causal else keep
        q, k, v = (one.transpose(0, 1)[None] for one in (q, k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.out(mixed[0].transpose(0, 1).flatten(1))

    def turned(self, rows, turns):
        pairs = torch.view_as_complex(rows.unflatten(-1, (3, 2)).contiguous())
        return torch.view_as_real(pairs * turns[:, None]).flatten(-2)


def rotated(module):
    def call(code, x):
        batch, tokens, width = x.shape
        angles = torch.outer(torch.arange(tokens, device=x.device), 30.0 ** -torch.arange(3, device=x.device))
        turns = torch.polar(torch.ones_like(angles), angles).repeat(batch, 1)
        return code(x.reshape(-1, width), turns, [tokens] * batch).view(x.shape)

    torch.manual_seed(9)
    return diagnose(module.eval(), torch.randn(2, 5, 24), num_heads=4, num_kv_heads=2, call=call)


def test_causal_rows_of_several_samples_are_right():
    report = rotated(RotatedRows())
    assert report.ok and "rotary-unused" not in report.mistakes, report.in_words()


def test_rows_of_several_samples_that_see_the_future_are_wrong():
    report = rotated(RotatedRows(causal=False))
    assert report.mistakes == ("no-causal-mask",), report.in_words()


class FlatRows(nn.Module):
    """Attention over rows (token, width), with queries, keys and values from one projection."""

    def __init__(self, causal: bool, apart: bool = True):
        super().__init__()
        self.causal, self.apart = causal, apart
        self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x, ends):
        q, k, v = self.qkv(x).view(len(x), 3, 3, 4).permute(1, 2, 0, 3)
        at = torch.arange(len(x), device=x.device)
        sample = torch.bucketize(at, ends, right=True)
        hidden = (sample[:, None] != sample) & self.apart
        hidden = hidden | (at[:, None] < at) if self.causal else hidden
        weights = (q @ k.mT / 2).masked_fill(hidden, -torch.inf).softmax(dim=-1)
        return self.out((weights @ v).transpose(0, 1).flatten(1))


def flat(module, *, causal):
    def call(code, x):
        ends = torch.arange(1, len(x) + 1, device=x.device) * x.shape[1]
        return code(x.flatten(0, 1), ends).view(x.shape)

    torch.manual_seed(9)
    return diagnose(module.eval(), torch.randn(2, 5, 12), num_heads=3, causal=causal, call=call)


@pytest.mark.parametrize("causal", [True, False])
def test_rows_without_an_axis_of_samples(causal):
    report = flat(FlatRows(causal), causal=causal)
    assert report.ok and "3 heads of width 4" in report.in_words(), report.in_words()
    assert flat(FlatRows(not causal), causal=causal).exit_status == 1
    assert "batch-mixed" in flat(FlatRows(causal, apart=False), causal=causal).mistakes
