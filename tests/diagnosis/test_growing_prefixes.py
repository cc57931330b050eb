"""Models that are given the whole prefix for each new token, of which a cache leaves the newest to be computed."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(5)


def turned(x, first):
    positions = torch.arange(first, first + x.shape[-2], dtype=x.dtype, device=x.device)
    angles = positions[:, None] * 0.3 ** torch.arange(x.shape[-1] // 2, dtype=x.dtype, device=x.device)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Attending(nn.Module):
    """Keeps keys as they were before they are turned, if any are."""

    def __init__(self, width, num_heads, *, turns=False):
        super().__init__()
        self.num_heads, self.turns = num_heads, turns
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x, cache=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = (torch.cat((old, new), -2) for old, new in zip(cache.unbind(1), (k, v), strict=True))
        cache = torch.stack((k, v), 1)
        if self.turns:
            q, k = turned(q, k.shape[-2] - q.shape[-2]), turned(k, 0)
        scores = q @ k.mT * q.shape[-1] ** -0.5
        queries, keys = scores.shape[-2:]
        future = torch.ones(queries, keys, dtype=torch.bool, device=x.device).triu(keys - queries + 1)
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2)), cache


class Speaking(nn.Module):
    def __init__(self, depth, *, turns=False):
        super().__init__()
        self.embed, self.head = nn.Embedding(31, 12), nn.Linear(12, 31)
        self.layers = nn.ModuleList(Attending(12, 3, turns=turns) for _ in range(depth))

    def forward(self, ids, caches=None):
        x, made = self.embed(ids), []
        if caches is not None:
            x = x[:, caches.shape[-2] :]
        for at, layer in enumerate(self.layers):
            y, cache = layer(x, None if caches is None else caches[at])
            x = x + y
            made.append(cache)
        return self.head(x), torch.stack(made)


def token_by_token(model, ids):
    outputs, caches = [], None
    for count in range(3, ids.shape[1] + 1):
        rows, caches = model(ids[:, :count], caches)
        outputs.append(rows)
    return torch.cat(outputs, 1)


def examined(model):
    torch.manual_seed(3)
    return diagnose(model.eval(), torch.randint(31, (2, 7)), num_heads=3, call=token_by_token)


@pytest.mark.slow
@pytest.mark.parametrize("turns", [False, True])
def test_rows_of_no_query_that_was_asked_for_are_not_examined(turns):
    torch.manual_seed(1)
    report = examined(Speaking(2, turns=turns))
    assert not report.mistakes, report.in_words()
    assert report.exit_status in (0, 2)
