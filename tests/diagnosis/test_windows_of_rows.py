"""Tokens that are compared in windows of their row only, which the code makes, may be meant so."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.diagnosis import diagnose


class InWindows(nn.Module):
    """Pads the row to whole windows, and compares the tokens of each; `masked` compares all and hides the others."""

    def __init__(self, size, *, masked=False):
        super().__init__()
        self.size, self.masked = size, masked
        self.qkv, self.out = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x):
        count = x.shape[1]
        padded = F.pad(x, (0, 0, 0, -count % self.size))
        q, k, v = self.qkv(padded).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        hidden = torch.arange(padded.shape[1], device=x.device) >= count
        of = torch.arange(padded.shape[1], device=x.device) // self.size
        if self.masked:
            hidden = hidden | (of[:, None] != of)
        else:
            q, k, v = (part.unflatten(2, (-1, self.size)) for part in (q, k, v))
            hidden = hidden.view(-1, 1, self.size)
        weights = (q @ k.mT / 2).masked_fill(hidden, -1e4).softmax(-1)
        heads = weights @ v if self.masked else (weights @ v).flatten(2, 3)
        return self.out(heads.transpose(1, 2).flatten(2))[:, :count]


def examined(module, **options):
    torch.manual_seed(0)
    return diagnose(module, torch.randn(2, 6, 12), num_heads=3, causal=False, **options)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("options", [{}, {"lengths": [6]}])
def test_windows_that_the_code_makes_are_taken_as_meant(size, options):
    report = examined(InWindows(size), **options)
    assert report.ok, report.in_words()
    assert any("taken as meant" in remark for remark in report.remarks), report.remarks


def test_windows_of_one_token_are_not_taken_as_meant():
    report = examined(InWindows(1))
    assert report.mistakes == ("weights-not-applied",) and not report.remarks, report
