"""A cache whose keys come back as values: found where it is read in pieces, with the line that returns them."""

import torch
from torch import nn

from course_lib.diagnosis import diagnose


class Cached(nn.Module):
    def __init__(self, exchanged: bool = False):
        super().__init__()
        self.exchanged = exchanged
        self.q, self.k, self.v, self.out = (nn.Linear(12, 12, bias=False) for _ in range(4))

    def forward(self, x, cache=None):
        q, k, v = (layer(x).unflatten(-1, (3, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - q.shape[2])
        weights = (q @ k.mT / 2).masked_fill(~keep, -torch.inf).softmax(-1)
        out = self.out((weights @ v).transpose(1, 2).flatten(2))
        return (out, (v, k)) if self.exchanged else (out, (k, v))


def in_pieces(module, x):
    first, cache = module(x[:, :3])
    second, _ = module(x[:, 3:], cache)
    return torch.cat([first, second], 1)


def examined(module):
    torch.manual_seed(4)
    return diagnose(module.eval(), torch.randn(2, 5, 12), num_heads=3, call=in_pieces)


def test_a_cache_that_exchanges_keys_and_values_is_found():
    report = examined(Cached(exchanged=True))
    (finding,) = report.findings
    assert finding.mistake == "stale-cache"
    assert finding.evidence == "a query meets the value of token 0 as its key, beside the key of token 3"
    assert "return (out, (v, k)) if self.exchanged" in finding.source
