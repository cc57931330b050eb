"""Right modules in as many styles as people write, on given weights; a doctor that calls one of them wrong is wrong.

Every style takes `tests.diagnosis.bank.weights.Weights` and gives back a module or a function of x (batch, token, d_in)
that is causal attention on exactly these weights.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .case import Case, some_x
from .weights import Weights


def linear(matrix, bias):
    """An nn.Linear that computes x @ matrix + bias."""
    made = nn.Linear(*matrix.shape, bias=bias is not None, dtype=matrix.dtype)
    with torch.no_grad():
        made.weight.copy_(matrix.T)
        if bias is not None:
            made.bias.copy_(bias)
    return made


def zeros_for(matrix, bias):
    return torch.zeros(matrix.shape[1], dtype=matrix.dtype) if bias is None else bias


class Projected(nn.Module):
    """What most styles share: four Linears and the sizes."""

    def __init__(self, w):
        super().__init__()
        self.h, self.g = w.num_heads, w.num_kv_heads
        self.wq, self.wk = linear(w.q, w.q_bias), linear(w.k, w.k_bias)
        self.wv, self.wo = linear(w.v, w.v_bias), linear(w.o, w.o_bias)

    def heads(self, x):
        b, t, _ = x.shape
        parts = ((self.wq, self.h), (self.wk, self.g), (self.wv, self.g))
        return (project(x).view(b, t, heads, -1).transpose(1, 2) for project, heads in parts)

    def out(self, context):
        return self.wo(context.transpose(1, 2).flatten(2))


class Classic(Projected):
    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.heads(x)
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
        mask = torch.triu(torch.ones(t, t, device=x.device), diagonal=1).bool()
        scores.masked_fill_(mask, -torch.inf)
        return self.wo((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1))


class AdditiveInf(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        bias = torch.full((x.shape[1],) * 2, -torch.inf, dtype=x.dtype, device=x.device).triu(1)
        return self.out(F.softmax(q @ k.mT * q.shape[-1] ** -0.5 + bias, dim=-1) @ v)


class AdditiveBillion(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        t = x.shape[1]
        allowed = torch.ones(t, t, dtype=x.dtype, device=x.device).tril()
        scores = torch.matmul(q, k.permute(0, 1, 3, 2)).mul(q.size(-1) ** -0.5)
        return self.out(torch.softmax(scores - 1e9 * (1 - allowed), dim=3).matmul(v))


class LowestFinite(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        columns = torch.arange(x.shape[1], device=x.device)
        rows = columns[:, None]
        scores = torch.where(columns <= rows, (q * q.shape[-1] ** -0.5) @ k.mT, torch.finfo(x.dtype).min)
        return self.out(scores.softmax(-1) @ v)


class BufferedMask(Projected):
    def __init__(self, w, longest=64):
        super().__init__(w)
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest), False)

    def forward(self, x):
        t = x.size(1)
        q, k, v = self.heads(x)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        return self.out(F.softmax(att, dim=-1) @ v)


class SdpaCausal(Projected):
    def forward(self, x):
        return self.out(F.scaled_dot_product_attention(*self.heads(x), is_causal=True))


class SdpaMask(Projected):
    def forward(self, x):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return self.out(F.scaled_dot_product_attention(*self.heads(x), attn_mask=mask))


class ExpAndSum(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        scores = (q @ k.mT) / q.shape[-1] ** 0.5
        powers = (scores - scores.amax(-1, keepdim=True)).exp().tril()
        return self.out((powers / powers.sum(-1, keepdim=True)) @ v)


class LogSoftmax(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        hidden = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1) > 0
        scores = ((q / q.shape[-1] ** 0.25) @ (k / k.shape[-1] ** 0.25).mT).masked_fill(hidden, -torch.inf)
        return self.out(scores.log_softmax(-1).exp() @ v)


class InChunks(Projected):
    """Softmax over the keys piece by piece, as fast kernels do it."""

    def forward(self, x, size=2):
        q, k, v = self.heads(x)
        b, h, t, d = q.shape
        top = torch.full((b, h, t, 1), -torch.inf, dtype=x.dtype, device=x.device)
        total, context = torch.zeros_like(top), torch.zeros_like(q[..., :1] * v[..., :1, :])
        for start in range(0, t, size):
            scores = (q @ k[:, :, start : start + size].mT) * d**-0.5
            at = torch.arange(t, device=x.device)
            later = at[start : start + size] > at[:, None]
            scores = scores.masked_fill(later, -torch.inf)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            powers, rescale = (scores - new).exp(), (top - new).exp()
            total = total * rescale + powers.sum(-1, keepdim=True)
            context = context * rescale + powers @ v[:, :, start : start + size]
            top = new
        return self.out(context / total)


class Einsum(Projected):
    def forward(self, x):
        q, k, v = (p(x).unflatten(-1, (self.h, -1)) for p in (self.wq, self.wk, self.wv))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        weights = scores.masked_fill(~torch.ones(scores.shape[-2:], device=x.device).tril().bool(), -torch.inf).softmax(
            -1
        )
        return self.wo(torch.einsum("bhqk,bkhd->bqhd", weights, v).flatten(2))


class FoldedHeads(Projected):
    """Heads folded into the batch: (batch * head, token, head_dim)."""

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (one.reshape(b * self.h, t, -1) for one in self.heads(x))
        bias = torch.full((t, t), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
        scores = torch.baddbmm(bias.expand(b * self.h, t, t), q, k.transpose(1, 2), alpha=q.shape[-1] ** -0.5)
        context = torch.bmm(scores.softmax(2), v)
        return self.wo(context.view(b, self.h, t, -1).permute(0, 2, 1, 3).contiguous().view(b, t, -1))


class StackedInBatch(Projected):
    """Heads cut off by `split` and stacked along the batch, as in early code."""

    def forward(self, x):
        q, k, v = (torch.cat(p(x).chunk(self.h, dim=-1), dim=0) for p in (self.wq, self.wk, self.wv))
        scores = (q * q.shape[-1] ** -0.5).bmm(k.transpose(1, 2))
        weights = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -torch.inf).softmax(-1)
        return self.wo(torch.cat(weights.bmm(v).chunk(self.h, dim=0), dim=-1))


class LoopOverHeads(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        keep = torch.ones(x.shape[1], x.shape[1], device=x.device).tril().bool()
        contexts = []
        for h in range(self.h):
            scores = q[:, h] @ k[:, h].mT / math.sqrt(q.shape[-1])
            contexts.append(scores.masked_fill(~keep, -torch.inf).softmax(dim=2) @ v[:, h])
        return self.wo(torch.cat(contexts, dim=2))


class LoopOverTokens(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        rows = []
        for t in range(x.shape[1]):
            scores = (k[:, :, : t + 1] @ q[:, :, t, :, None]).squeeze(-1) * q.shape[-1] ** -0.5
            rows.append((scores.softmax(-1)[..., None] * v[:, :, : t + 1]).sum(2))
        return self.out(torch.stack(rows, dim=2))


class SummedOutput(Projected):
    """W_O cut into one block a head, their results added."""

    def forward(self, x):
        q, k, v = self.heads(x)
        keep = torch.ones(x.shape[1], x.shape[1], device=x.device).tril().bool()
        context = ((q * q.shape[-1] ** -0.5) @ k.mT).masked_fill(~keep, -torch.inf).softmax(-1) @ v
        blocks = self.wo.weight.chunk(self.h, dim=1)
        output = sum(context[:, h] @ block.T for h, block in enumerate(blocks))
        return output if self.wo.bias is None else output + self.wo.bias


class TokensFirst(Projected):
    """(token, batch, width) inside, as PyTorch's own module has it."""

    def forward(self, x):
        x = x.transpose(0, 1)
        t, b, _ = x.shape
        q, k, v = (p(x).contiguous().view(t, b * self.h, -1).transpose(0, 1) for p in (self.wq, self.wk, self.wv))
        mask = torch.full((t, t), -torch.inf, dtype=x.dtype, device=x.device).triu(1)
        context = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1) + mask).softmax(-1) @ v
        return self.wo(context.transpose(0, 1).contiguous().view(t, b, -1)).transpose(0, 1)


class Heads(nn.Module):
    """A list of single heads."""

    class Head(nn.Module):
        def __init__(self, q, k, v):
            super().__init__()
            self.query, self.key, self.value = q, k, v

        def forward(self, x):
            q, k, v = self.query(x), self.key(x), self.value(x)
            wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
            tril = torch.tril(torch.ones(x.shape[1], x.shape[1], device=x.device))
            return F.softmax(wei.masked_fill(tril == 0, float("-inf")), dim=-1) @ v

    def __init__(self, w):
        super().__init__()
        h = w.num_heads
        parts = [
            [linear(*one) for one in zip(matrix.chunk(h, dim=1), _chunks(bias, h), strict=True)]
            for matrix, bias in ((w.q, w.q_bias), (w.k, w.k_bias), (w.v, w.v_bias))
        ]
        self.heads = nn.ModuleList(Heads.Head(*part) for part in zip(*parts, strict=True))
        self.proj = linear(w.o, w.o_bias)

    def forward(self, x):
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


def _chunks(bias, count):
    return [None] * count if bias is None else bias.chunk(count)


class Packed(nn.Module):
    """One projection for all three."""

    def __init__(self, w):
        super().__init__()
        self.n_head = w.num_heads
        matrix = torch.cat([w.q, w.k, w.v], dim=1)
        bias = torch.cat([zeros_for(m, b) for m, b in ((w.q, w.q_bias), (w.k, w.k_bias), (w.v, w.v_bias))])
        self.c_attn, self.c_proj = linear(matrix, bias), linear(w.o, w.o_bias)

    def finish(self, q, k, v):
        mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        y = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(mask, -torch.inf).softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(len(y), y.shape[2], -1))

    def forward(self, x):
        b, t, _ = x.size()
        q, k, v = self.c_attn(x).split(self.c_attn.out_features // 3, dim=2)
        return self.finish(*(one.view(b, t, self.n_head, -1).transpose(1, 2) for one in (q, k, v)))


class PackedUnbound(Packed):
    def forward(self, x):
        b, t, _ = x.size()
        return self.finish(*self.c_attn(x).view(b, t, 3, self.n_head, -1).permute(2, 0, 3, 1, 4).unbind(0))


class PackedIndexed(Packed):
    def forward(self, x):
        qkv = self.c_attn(x).unflatten(-1, (3, self.n_head, -1)).movedim(-3, 0).transpose(2, 3)
        return self.finish(qkv[0], qkv[1], qkv[2])


class Parameters(nn.Module):
    """Matrices as Parameters, heads as an axis of them."""

    def __init__(self, w):
        super().__init__()
        self.h = w.num_heads
        by_head = (m.view(m.shape[0], w.num_heads, -1).transpose(0, 1) for m in (w.q, w.k, w.v))  # (h, m, d)
        self.W_q, self.W_k, self.W_v = (nn.Parameter(m.clone()) for m in by_head)
        biases = ((w.q, w.q_bias), (w.k, w.k_bias), (w.v, w.v_bias))
        self.b_q, self.b_k, self.b_v = (nn.Parameter(zeros_for(m, b).view(w.num_heads, 1, -1)) for m, b in biases)
        self.W_o = nn.Parameter(w.o.view(w.num_heads, -1, w.o.shape[1]).clone())  # (h, d, m)
        self.b_o = nn.Parameter(zeros_for(w.o, w.o_bias).clone())

    def forward(self, x):
        q = x[:, None] @ self.W_q + self.b_q
        k = x[:, None] @ self.W_k + self.b_k
        v = x[:, None] @ self.W_v + self.b_v
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores = scores + torch.full_like(scores[0, 0], -torch.inf).triu(1)
        return (scores.softmax(-1) @ v @ self.W_o).sum(1) + self.b_o


class EinsumParameters(Parameters):
    def forward(self, x):
        q, k, v = (
            torch.einsum("btm,hmd->bhtd", x, matrix) + bias
            for matrix, bias in ((self.W_q, self.b_q), (self.W_k, self.b_k), (self.W_v, self.b_v))
        )
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
        keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        weights = torch.where(keep, scores, -torch.inf).softmax(-1)
        return torch.einsum("bhqk,bhkd,hdm->bqm", weights, v, self.W_o) + self.b_o


class ScaledWeights(Projected):
    """The scale is part of the query matrix."""

    def __init__(self, w):
        super().__init__(w)
        with torch.no_grad():
            for parameter in self.wq.parameters():
                parameter *= (w.q.shape[1] // w.num_heads) ** -0.5

    def forward(self, x):
        q, k, v = self.heads(x)
        keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        return self.out((q @ k.mT).masked_fill(~keep, -torch.inf).softmax(-1) @ v)


class InFloat32(Classic):
    """Softmax in at least 32 bits, then back."""

    def forward(self, x):
        q, k, v = self.heads(x)
        keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
        scores = ((q * q.shape[-1] ** -0.5) @ k.mT).masked_fill(~keep, -torch.inf)
        precise = torch.promote_types(scores.dtype, torch.float32)
        return self.out(scores.softmax(-1, dtype=precise).to(q.dtype) @ v)


def plain_function(w):
    """No module at all: a closure over matrices."""

    pairs = ((w.q, w.q_bias), (w.k, w.k_bias), (w.v, w.v_bias), (w.o, w.o_bias))
    q_bias, k_bias, v_bias, o_bias = (zeros_for(*pair) for pair in pairs)

    def attention(x):
        b, t, _ = x.shape
        q, k, v = (
            (x @ matrix + bias).reshape(b, t, w.num_heads, -1).permute(0, 2, 1, 3)
            for matrix, bias in ((w.q, q_bias), (w.k, k_bias), (w.v, v_bias))
        )
        scores = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
        scores = scores.where(torch.ones(t, t, device=x.device).tril() > 0, torch.tensor(-torch.inf, dtype=x.dtype))
        return (scores.softmax(-1) @ v).permute(0, 2, 1, 3).reshape(b, t, -1) @ w.o + o_bias

    return attention


class SharedByRepeat(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        k, v = (one.repeat_interleave(self.h // self.g, dim=1) for one in (k, v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class SharedByExpand(Projected):
    def forward(self, x):
        q, k, v = self.heads(x)
        b, g, t, _ = k.shape
        k, v = (one[:, :, None].expand(b, g, self.h // g, t, -1).reshape(b, self.h, t, -1) for one in (k, v))
        mask = torch.full((t, t), torch.finfo(x.dtype).min, dtype=x.dtype, device=x.device).triu(1)
        return self.out((q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask).softmax(-1) @ v)


class SharedByGroups(Projected):
    """Queries (batch, kv head, heads that share it, token, head_dim) meet keys with an axis of one."""

    def forward(self, x):
        q, k, v = self.heads(x)
        b, _, t, d = q.shape
        grouped = q.reshape(b, self.g, self.h // self.g, t, d) * d**-0.5
        scores = grouped @ k[:, :, None].mT
        weights = scores.masked_fill(torch.ones(t, t, device=x.device).triu(1).bool(), -torch.inf).softmax(-1)
        return self.out((weights @ v[:, :, None]).reshape(b, self.h, t, -1))


class SharedBySdpa(Projected):
    def forward(self, x):
        return self.out(F.scaled_dot_product_attention(*self.heads(x), is_causal=True, enable_gqa=True))


OWN_HEADS = (
    Classic, AdditiveInf, AdditiveBillion, LowestFinite, BufferedMask, SdpaCausal, SdpaMask, ExpAndSum, LogSoftmax,
    InChunks, Einsum, FoldedHeads, StackedInBatch, LoopOverHeads, LoopOverTokens, SummedOutput, TokensFirst, Heads,
    Packed, PackedUnbound, PackedIndexed, Parameters, EinsumParameters, ScaledWeights, InFloat32, plain_function,
)  # fmt: skip
SHARED_HEADS = (SharedByRepeat, SharedByExpand, SharedByGroups, SharedBySdpa)


def _cases():
    """Each style as a case, the sharing ones with as many, fewer and one kv head."""
    made = []
    for number, style in enumerate((*OWN_HEADS, *SHARED_HEADS)):
        for kv_heads in (6,) if style in OWN_HEADS else (6, 2, 1):

            def make(style=style, kv_heads=kv_heads, seed=number):
                d_in, heads, head_dim, d_out = 11, 6, 7, 42
                generator = torch.Generator().manual_seed(seed)
                q, k, v, o = (
                    torch.randn(rows, columns, generator=generator, dtype=torch.float64) / rows**0.5
                    for rows, columns in ((d_in, heads * head_dim), *[(d_in, kv_heads * head_dim)] * 2, (42, d_out))
                )
                weights = Weights(q, k, v, o, num_heads=heads, num_kv_heads=kv_heads)
                return style(weights), some_x(2, 5, d_in), {"num_heads": heads, "num_kv_heads": kv_heads}

            make.__name__ = f"{style.__name__}_{kv_heads}"
            made.append(Case(None, make))
    return made


CASES = _cases()
