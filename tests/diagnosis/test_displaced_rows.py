"""Windows that are cut out, attended to and put back: what was found for a token must stand in that token's row."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose


class ShiftedWindows(nn.Module):
    """Attention in windows of 2 by 2 that are moved by one, over (batch, width, height, width of the picture)."""

    def __init__(self, back: int = 1, exchanged: bool = False):
        super().__init__()
        self.back, self.exchanged = back, exchanged
        self.qkv, self.proj = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x):
        b, c, h, w = x.shape
        x = x.roll((-1, -1), (2, 3)).reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, c)
        q, k, v = self.qkv(x).reshape(len(x), 4, 3, 3, 4).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT / 2).softmax(-1)
        out = self.proj((weights @ v).transpose(1, 2).reshape(-1, 4, c)).reshape(b, h // 2, w // 2, 2, 2, c)
        order = (0, 5, 1, 3, 4, 2) if self.exchanged else (0, 5, 1, 3, 2, 4)
        return out.permute(order).reshape(b, c, h, w).roll((self.back, self.back), (2, 3))


def examined(module):
    torch.manual_seed(3)
    return diagnose(module.eval(), torch.randn(2, 12, 4, 6), num_heads=3, causal=False)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("wrong", [{"back": -1}, {"back": 0}, {"exchanged": True}], ids=str)
def test_windows_that_are_put_elsewhere_are_wrong(wrong):
    report = examined(ShiftedWindows(**wrong))
    assert report.exit_status == 1
    (finding,) = report.findings
    assert "rows of other tokens" in finding.title
    assert "of which its query is made" in finding.evidence
