"""Kinds of published code that were accused or not examined although they are right, and mistakes of the same kinds."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

pytestmark = pytest.mark.one_in(2)

D = 12
X = torch.randn(2, 6, D, generator=torch.Generator().manual_seed(0))


class Projected(nn.Module):
    """Projects x to queries, keys and values."""

    def __init__(self, size=1):
        super().__init__()
        torch.manual_seed(1)
        self.qkv, self.size = nn.Linear(D, 3 * D), size

    def split(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return q * D**-0.5, k, v


class Chunks(Projected):
    """Sums the exponentials of each chunk of keys, and divides at the end."""

    def forward(self, x):
        q, k, v = self.split(x)
        values, sums, tops = [], [], []
        for key, value in zip(k.split(self.size, 1), v.split(self.size, 1), strict=True):
            scores = q @ key.mT
            top = scores.amax(-1, keepdim=True).detach()
            weights = (scores - top).exp()
            values.append(weights @ value)
            sums.append(weights.sum(-1))
            tops.append(top[..., 0])
        values, sums, tops = map(torch.stack, (values, sums, tops))
        factor = (tops - tops.amax(0, keepdim=True)).exp()
        return (values * factor[..., None]).sum(0) / self.total(sums * factor)[..., None]

    def total(self, sums):
        return sums.sum(0)


class LastSum(Chunks):
    """Wrong: divides by the sum of the last chunk alone."""

    def total(self, sums):
        return sums[-1]


def test_chunks_that_are_divided_by_another_sum_are_wrong():
    assert "the weights of a row don't sum to 1" in diagnose(LastSum(3), X, causal=False).findings[0].title


class Frames(nn.Module):
    """Attention over the 2 frames of each of 4 patches, without the class token, and then over those of each frame."""

    def __init__(self):
        super().__init__()
        self.time, self.space = Projected(), Projected()

    def forward(self, x):
        batch = len(x)
        patches = self.attend(self.time, x[:, 1:].reshape(batch * 4, 2, D)).reshape(batch, 8, D)
        x = x + torch.cat([torch.zeros_like(x[:, :1]), patches], 1)
        frames = x[:, 1:].unflatten(1, (4, 2)).transpose(1, 2).flatten(0, 1)
        out = self.attend(self.space, torch.cat([x[:, :1].repeat_interleave(2, 0), frames], 1)).unflatten(0, (batch, 2))
        return x + torch.cat([out[:, :, 0].mean(1, keepdim=True), out[:, :, 1:].transpose(1, 2).flatten(1, 2)], 1)

    def attend(self, projected, x):
        q, k, v = projected.split(x)
        return (q @ k.mT).softmax(-1) @ v


def test_frames_and_patches_may_be_attended_to_in_turn():
    x = torch.randn(2, 9, D, generator=torch.Generator().manual_seed(0))
    assert diagnose(Frames(), x, causal=False, lengths=[9]).ok


class JoinedKeys(Projected):
    """Joins the narrow keys and values of two tokens into one."""

    def __init__(self):
        super().__init__()
        self.kv = nn.Linear(D, D)

    def forward(self, x):
        k, v = self.kv(x).unflatten(1, (-1, 2)).unflatten(-1, (2, -1)).permute(3, 0, 1, 2, 4).flatten(-2)
        return (self.split(x)[0] @ k.mT).softmax(-1) @ v


def test_keys_that_are_joined_from_several_tokens_are_no_heads_that_are_cut_wrongly():
    report = diagnose(JoinedKeys(), X, causal=False, lengths=[6])
    assert not any(one.mistake for one in report.findings)
