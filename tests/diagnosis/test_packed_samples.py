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
def test_samples_that_see_each_other_are_wrong(way):
    report = way(Packed(apart=False))
    assert report.exit_status == 1 and report.mistakes[0] in ("batch-mixed", "fixed-batch"), report.in_words()
