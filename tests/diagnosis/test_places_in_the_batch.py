"""Code in which a sample's place in the batch, or another sample, changes its output."""

import pytest
import torch
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.diagnosis import diagnose


class Behind(nn.Module):
    """Puts one token behind the others, so that its output has no row for each token, and may add up the samples."""

    def __init__(self, wrong):
        super().__init__()
        self.attention, self.last = nn.MultiheadAttention(12, 3, batch_first=True), nn.Parameter(torch.randn(1, 1, 12))
        self.wrong = wrong

    def forward(self, x):
        x = torch.cat((x, self.last.expand(len(x), 1, -1)), 1)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return x + x.mean(0, keepdim=True) if self.wrong else x


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("wrong", "mistakes"), [(True, ("batch-mixed",)), (False, ())])
def test_samples_are_probed_where_the_output_has_no_row_for_each_token(wrong, mistakes):
    report = diagnose(Behind(wrong), torch.randn(2, 5, 12), causal=False, num_heads=3)
    assert report.mistakes == mistakes and "not probed from outside" in str(report), report


class AddsTheSampleBefore(MultiHeadAttention):
    """Only the first sample keeps to itself."""

    def forward(self, x):
        return super().forward(x) + torch.cat((torch.zeros_like(x[:1]), x[:-1]))


def test_that_the_last_sample_moves_with_another_is_told_of_the_attention_that_does_it():
    code = nn.Sequential(MultiHeadAttention(12, 12, 3), AddsTheSampleBefore(12, 12, 3))
    report = diagnose(code, torch.randn(2, 5, 12), num_heads=3)
    assert report.mistakes == ("batch-mixed",) and not report.not_examined, report
    assert report.findings[0].evidence.startswith("in 1: the output of sample 1 changes"), report
