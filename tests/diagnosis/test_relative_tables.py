"""A table with an entry for each displacement in a window: two displacements must not share an entry."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose
from tests.diagnosis.marked_lines import marked


class Window(nn.Module):
    """Attention in one window with a learned bias for each displacement of the key from the query."""

    def __init__(self, height: int, width: int, factor: int, down_first: bool = True):
        super().__init__()
        self.qkv, self.proj = nn.Linear(12, 36), nn.Linear(12, 12)
        self.table = nn.Parameter(torch.randn((2 * height - 1) * (2 * width - 1), 3))
        at = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")).flatten(1)
        moved = at[:, :, None] - at[:, None] + torch.tensor([height - 1, width - 1])[:, None, None]
        index = moved[0] * factor + moved[1] if down_first else moved[1] * factor + moved[0]
        self.register_buffer("index", index)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 3, 4).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(n, n, 3).permute(2, 0, 1)
        weights = (q @ k.mT / 2 + bias).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(b, n, c))


def examined(module, tokens):
    torch.manual_seed(5)
    return diagnose(module.eval(), torch.randn(2, tokens, 12), num_heads=3, causal=False, lengths=[tokens])


@pytest.mark.parametrize(
    ("height", "width", "factor", "down_first"), [(2, 3, 5, True), (3, 2, 3, True), (2, 2, 3, True), (2, 3, 3, False)]
)
def test_an_entry_for_each_displacement_is_right(height, width, factor, down_first):
    report = examined(Window(height, width, factor, down_first), height * width)
    assert report.ok, report.in_words()


@pytest.mark.parametrize(("height", "width", "factor"), [(2, 3, 3), (2, 3, 2), (2, 4, 3)])
def test_displacements_that_share_an_entry_are_found(height, width, factor):
    report = examined(Window(height, width, factor), height * width)
    (finding,) = report.findings
    assert finding.title.endswith("relative positions are read from the entries of others.")
    assert f"in a grid of {height} by {width}" in finding.evidence
    assert "index = moved[0] * factor" in finding.source


class Reshaped(Window):
    """The biases, (query, key, head), are reshaped to (head, query, key), or permuted."""

    def __init__(self, permuted: bool):
        super().__init__(2, 3, 5)
        self.permuted = permuted

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, 3, 4).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(n, n, 3)
        bias = bias.permute(2, 0, 1) if self.permuted else bias.reshape(3, n, n)  # wrong
        return self.proj(((q @ k.mT / 2 + bias).softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))


def test_biases_that_are_reshaped_go_to_other_heads():
    assert examined(Reshaped(permuted=True), 6).ok
    (finding,) = examined(Reshaped(permuted=False), 6).findings
    assert finding.title.endswith("biases of a table go to other heads and tokens.")
    assert finding.evidence == "head 0 gets biases from the columns [0, 1, 2] of `table`"
    assert {finding.where} == marked(Reshaped)
