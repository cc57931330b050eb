"""Kinds of published code that were accused although they are right: chunks, copies, factors, convolutions, frames."""

import pytest
import torch
from torch import nn

from course_lib.diagnosis import diagnose

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


@pytest.mark.parametrize("size", [3, 99])
def test_chunks_of_keys_may_be_divided_at_the_end(size):
    assert diagnose(Chunks(size), X, causal=False).ok


def test_chunks_that_are_divided_by_another_sum_are_wrong():
    assert "the weights of a row don't sum to 1" in diagnose(LastSum(3), X, causal=False).findings[0].title


class CopiedToken(Projected):
    """Each patch attends over its frames and a copy of the class token; the copies' results are averaged."""

    def forward(self, x):
        batch, tokens, _ = x.shape
        patches = (tokens - 1) // self.size
        inner = x[:, 1:].reshape(batch * patches, self.size, D)
        q, k, v = self.split(torch.cat([x[:, :1].repeat_interleave(patches, 0), inner], 1))
        out = self.weights(q @ k.mT) @ v
        first = out[:, 0].view(batch, patches, D).mean(1, keepdim=True)
        return x + torch.cat([first, out[:, 1:].reshape(batch, tokens - 1, D)], 1)

    def weights(self, scores):
        return scores.softmax(-1)


class OverQueries(CopiedToken):
    def weights(self, scores):
        return scores.softmax(-2)


def test_a_class_token_may_be_copied_to_each_patch():
    x = torch.randn(2, 9, D, generator=torch.Generator().manual_seed(0))
    report = diagnose(CopiedToken(2), x, causal=False, lengths=[9])
    assert report.ok and any("in 4 groups of 2" in one for one in report.remarks), report
    assert diagnose(OverQueries(2), x, causal=False, lengths=[9]).mistakes == ("softmax-wrong-axis",)


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


class Decaying(Projected):
    """Multiplies scores by exp(-distance), where the distance comes from a softmax without gradients."""

    def forward(self, x):
        q, k, v = self.split(x)
        scores = q @ k.mT
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)
        with torch.no_grad():
            at = torch.arange(x.shape[1], device=x.device)
            ahead = 1 - scores.masked_fill(hidden, -1e32).softmax(-1).cumsum(-1)
            distance = (ahead * (at - at[:, None]).abs()).clamp(min=0).sqrt()
        return (scores * (-distance).exp()).masked_fill(hidden, -1e32).softmax(-1) @ v


def test_a_softmax_may_make_a_factor_of_the_scores():
    assert diagnose(Decaying(), X).ok


class Convolved(nn.Module):
    """Queries and keys of causal convolutions along time, of x of (batch, node, time, width)."""

    def __init__(self, ahead=0):
        super().__init__()
        torch.manual_seed(1)
        self.ahead, self.v = ahead, nn.Linear(D, D)
        self.q, self.k = (nn.Conv2d(D, D, (1, 3), padding=(0, 2)) for _ in range(2))

    def forward(self, x):
        q, k = (one(x.permute(0, 3, 1, 2))[..., :-2].permute(0, 2, 3, 1) for one in (self.q, self.k))
        hidden = torch.ones(x.shape[2], x.shape[2], dtype=torch.bool, device=x.device).triu(1 + self.ahead)
        return (q @ k.mT * D**-0.5).masked_fill(hidden, -torch.inf).softmax(-1) @ self.v(x)


def test_queries_and_keys_may_come_from_causal_convolutions():
    x = torch.randn(2, 3, 6, D, generator=torch.Generator().manual_seed(0))
    assert diagnose(Convolved(), x).ok
    assert diagnose(Convolved(ahead=1), x).findings


class Relative(Projected):
    """Adds products of queries and projected positions to the scores, with the tokens first, much as Transformer-XL."""

    def __init__(self):
        super().__init__()
        self.positions = nn.Linear(D, D, bias=False)

    def forward(self, x):
        n, _, d = x.shape
        q, k, v = self.split(x)
        at = torch.arange(n, device=x.device, dtype=x.dtype)
        turns = 10 ** torch.linspace(0, -2, d, device=x.device, dtype=x.dtype)
        bias = torch.einsum("ibd,jd->ijb", q, self.positions(torch.sin(at[:, None] * turns)))
        hidden = torch.ones(n, n, dtype=torch.bool, device=x.device).triu(1)[..., None]
        scores = (torch.einsum("ibd,jbd->ijb", q, k) + bias).masked_fill(hidden, -torch.inf)
        return x + torch.einsum("ijb,jbd->ibd", scores.softmax(1), v)


class TokensFirst(nn.Sequential):
    def forward(self, input):
        return super().forward(input.transpose(0, 1)).transpose(0, 1)


def test_products_of_positions_are_no_attentions_of_their_own():
    report = diagnose(TokensFirst(Relative(), Relative()), X)
    assert report.ok and len(report.attentions) == 2, report
