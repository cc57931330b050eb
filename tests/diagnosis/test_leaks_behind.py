"""Later tokens that reach earlier outputs behind attention that is masked rightly."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

TOKENS = 6


class Masked(nn.Module):
    """Causal attention of queries, which may be the norm of what keys and values are made from, and a projection."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(12, 12) for _ in range(4))
        self.idle = nn.Linear(3, 3)

    def forward(self, queries, x):
        scores = self.q(queries) @ self.k(x).mT / 12**0.5
        weights = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf).softmax(-1)
        return queries + self.out(weights @ self.v(x))


class Layers(nn.Module):
    """Attention and a feed-forward, whose channels are the tokens by mistake."""

    def __init__(self, count, *, over_tokens):
        super().__init__()
        self.attentions = nn.ModuleList(Masked() for _ in range(count))
        self.feed = nn.ModuleList(nn.Conv1d(TOKENS, TOKENS, 1) if over_tokens else nn.Linear(12, 12) for _ in range(2))
        self.norm, self.over_tokens = nn.LayerNorm(12), over_tokens

    def forward(self, x):
        for attention, feed in zip(self.attentions, self.feed, strict=False):
            x = attention(self.norm(x), x)
            x = x + feed(x)  # the feed-forward
        return x


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2])
def test_a_later_token_that_comes_in_behind_attention_is_found_at_its_line(count):
    x = torch.randn(2, TOKENS, 12, generator=torch.Generator().manual_seed(0))
    report = diagnose(Layers(count, over_tokens=True), x, num_heads=1, lengths=[TOKENS])
    found = report.findings[-1]
    assert found.title.endswith("behind its attention, a later token reaches an earlier output."), report
    assert found.evidence == "the output of token 0 moves when token 1 changes"
    assert found.source == "x = x + feed(x)  # the feed-forward"
    assert "mask-lost-on-option" not in report.mistakes
    right = diagnose(Layers(count, over_tokens=False), x, num_heads=1, lengths=[TOKENS])
    assert "mask-lost-on-option" not in report.mistakes and "reaches an earlier" not in str(right), right
