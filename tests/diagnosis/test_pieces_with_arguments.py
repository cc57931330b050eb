"""Decoding in pieces is compared with one pass that gets what `call` gives, or is not compared."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose


class Turning(nn.Module):
    """Rotates pairs of columns by the positions of their tokens."""

    def forward(self, x, positions):
        angles = positions[:, None] * 10000.0 ** (-torch.arange(2, dtype=x.dtype, device=x.device) / 2)
        return turned(x, angles)


def turned(x, angles):
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Decoding(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(12, 12, bias=False) for _ in range(4))
        self.turning = Turning()

    def forward(self, x, rotary=None, angles=None, cache=None):
        q, k, v = (layer(x).unflatten(-1, (3, 4)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        done = 0 if cache is None else cache[0].shape[2]
        if rotary is not None:
            positions = torch.arange(done, done + x.shape[1], device=x.device)
            q, k = rotary(q, positions), rotary(k, positions)
        if angles is not None:
            q, k = turned(q, angles), turned(k, angles)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        keep = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=x.device).tril(k.shape[2] - q.shape[2])
        weights = (q @ k.mT / 2).masked_fill(~keep, -torch.inf).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2)), (k, v)


class ForgetsNewAngles(Decoding):
    def forward(self, x, rotary=None, angles=None, cache=None):
        return super().forward(x, rotary if cache is None else None, angles, cache)


def with_module(code, x):
    first, cache = code(x[:, :3], rotary=code.turning)
    return torch.cat([first, code(x[:, 3:], rotary=code.turning, cache=cache)[0]], 1)


def examined(module, call):
    torch.manual_seed(6)
    return diagnose(module.eval(), torch.randn(2, 5, 12), num_heads=3, call=call)


@pytest.mark.slow
def test_what_differs_from_that_pass_is_found():
    assert examined(ForgetsNewAngles(), with_module).exit_status == 1
