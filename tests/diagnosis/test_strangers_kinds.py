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


class ViewOfFused(Projected):
    """Views what PyTorch's kernel returns, whose layout is that of the queries."""

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (3, 4)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        heads = nn.functional.scaled_dot_product_attention(q, k, v)
        return heads.transpose(1, 2).view(*x.shape[:2], D)


def test_a_view_of_what_a_fused_kernel_returns_is_examined():
    assert diagnose(ViewOfFused(), X, causal=False).ok


def rotated(one, angle):
    first, second = one.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class AddedContext(Projected):
    """Adds to the attention among rotated tokens that to a context, times a gate."""

    gate = 0.3

    def forward(self, x, context):
        q, k, v = self.split(x)
        at = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)[:, None]
        angle = at * torch.logspace(0, -2, D // 2, device=x.device, dtype=x.dtype)
        q, k = rotated(q, angle), rotated(k, angle)
        _, keys, values = self.split(context)
        return (q @ k.mT).softmax(-1) @ v + self.gate * ((q @ keys.mT).softmax(-1) @ values)


def test_an_attention_to_a_context_may_be_added_with_a_gate():
    context = torch.randn(2, 4, D, generator=torch.Generator().manual_seed(2))
    assert diagnose(AddedContext(), X, causal=False, context=context).ok


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


class InFloat32(Projected):
    """Computes the scores in float32, and takes a mask of the keys."""

    def forward(self, x, attn_mask=None):
        q, k, v = self.split(5 * x)
        scores = q.float() @ k.float().mT
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask[:, None].bool(), -torch.inf)
        return scores.softmax(-1).type_as(v) @ v


def test_paths_may_differ_by_the_digits_of_float32():
    assert diagnose(InFloat32(), X, causal=False).ok


class CachedParts(Projected):
    """Rotates one half of queries and keys, and writes keys that learned weights made beside it to a cache."""

    def __init__(self):
        super().__init__()
        self.register_buffer("k_cache", torch.zeros(8, 16, D), persistent=False)

    def joined(self, plain, turned):
        return torch.cat([plain, turned], -1)

    def forward(self, x):
        q, k, v = self.split(x)
        at = torch.arange(x.shape[1], device=x.device, dtype=x.dtype)[:, None]
        angle = at * torch.logspace(0, -1, D // 4, device=x.device, dtype=x.dtype)
        q = self.joined(q[..., : D // 2], rotated(q[..., D // 2 :], angle))
        self.k_cache[: len(x), : x.shape[1]] = torch.cat([k[..., : D // 2], rotated(k[..., D // 2 :], angle)], -1)
        scores = q @ self.k_cache[: len(x), : x.shape[1]].mT
        return scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf).softmax(-1) @ v


class ExchangedParts(CachedParts):
    """Wrong: the rotated half of the queries meets the plain half of the keys."""

    def joined(self, plain, turned):
        return torch.cat([turned, plain], -1)


def test_parts_of_queries_that_meet_others_of_cached_keys_are_found():
    assert diagnose(CachedParts(), X).ok
    assert diagnose(ExchangedParts(), X).findings[0].mistake == "rotary-wrong-turn"


class CappedSink(Projected):
    """Caps the scores and lets a learned sink keep a part of each row's weight."""

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.tensor(0.4))

    def forward(self, x):
        q, k, v = self.split(x)
        scores = 2 * (q @ k.mT / 2).tanh()
        scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf)
        sink = self.of_row(scores)
        return torch.cat([sink, scores], -1).softmax(-1)[..., 1:] @ v

    def of_row(self, scores):
        return self.sink.expand(*scores.shape[:-1], 1)


class SinkOfEachRow(CappedSink):
    """Wrong: each query has a sink of its own."""

    def of_row(self, scores):
        return scores[..., :1] * self.sink


def test_a_sink_beside_capped_scores_is_one_for_all_rows():
    assert diagnose(CappedSink(), X).ok
    assert "the weights of a row don't sum to 1" in str(diagnose(SinkOfEachRow(), X))
