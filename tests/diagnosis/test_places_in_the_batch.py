"""Code in which a sample's place in the batch, or another sample, changes its output."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

IDS = torch.randint(50, (3, 7), generator=torch.Generator().manual_seed(0))


class Model(nn.Module):
    """A model of ids whose table of positions, (token, 1, width), stands on the axis of samples if it is wrong."""

    table: torch.Tensor

    def __init__(self, wrong):
        super().__init__()
        self.embed, self.attention = nn.Embedding(50, 12), nn.MultiheadAttention(12, 3, batch_first=True)
        self.register_buffer("table", torch.randn(20, 1, 12))
        self.wrong = wrong

    def forward(self, ids):
        x = self.embed(ids)
        table = self.table[: len(ids)] if self.wrong else self.table[: ids.shape[1]].transpose(0, 1)
        x = x + table  # the positions
        return x + self.attention(x, x, x, need_weights=False)[0]


def test_positions_on_the_axis_of_samples_are_found():
    (found,) = diagnose(Model(True), IDS, causal=False, num_heads=3).findings
    assert found.title.endswith("a sample's output depends on its place in the batch.")
    assert found.source == "x = x + table  # the positions"
    assert diagnose(Model(False), IDS, causal=False, num_heads=3).ok


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


@pytest.mark.parametrize(("wrong", "mistakes"), [(True, ("batch-mixed",)), (False, ())])
def test_samples_are_probed_where_the_output_has_no_row_for_each_token(wrong, mistakes):
    report = diagnose(Behind(wrong), torch.randn(2, 5, 12), causal=False, num_heads=3)
    assert report.mistakes == mistakes and "not probed from outside" in str(report), report
