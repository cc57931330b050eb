"""Answers to the exercises of lesson 03, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import SingleHeadAttention


def head(x, q, k, v):
    return F.scaled_dot_product_attention((x @ q)[None], (x @ k)[None], (x @ v)[None])[0]


def two_by_hand(x, q, k, v):
    weights_0 = torch.softmax(x @ q[0] @ (x @ k[0]).T / q[0].shape[1] ** 0.5, -1)
    weights_1 = torch.softmax(x @ q[1] @ (x @ k[1]).T / q[1].shape[1] ** 0.5, -1)
    return torch.cat([weights_0 @ (x @ v[0]), weights_1 @ (x @ v[1])], 1)


def two_by_stack(x, q, k, v):
    queries, keys, values = (torch.stack([x @ matrix for matrix in pair]) for pair in (q, k, v))
    context = F.scaled_dot_product_attention(queries, keys, values)
    return context.transpose(0, 1).flatten(1)


def mix_by_sum(contexts, w_o):
    output, start = 0, 0
    for context in contexts:
        output = output + context @ w_o[:, start : start + context.shape[-1]].T
        start += context.shape[-1]
    return output


class WrapperBase(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(
            SingleHeadAttention(d_in, d_out // num_heads, causal=False) for _ in range(num_heads)
        )
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        return self.out_proj(torch.cat([one(x) for one in self.heads], -1))


class WrapperThatAdds(WrapperBase):
    def forward(self, x):
        parts = self.out_proj.weight.chunk(len(self.heads), dim=1)
        return sum(one(x) @ part.T for one, part in zip(self.heads, parts, strict=True))


class OtherNames(nn.Module):
    """Names of its own, so that only the doctor can judge it."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.parts = nn.ModuleList(
            SingleHeadAttention(d_in, d_out // num_heads, causal=False) for _ in range(num_heads)
        )
        self.mix = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        return self.mix(torch.cat(tuple(part(x) for part in self.parts), dim=2))


class OneHeadManyTimes(WrapperBase):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.heads = nn.ModuleList([SingleHeadAttention(d_in, d_out // num_heads, causal=False)] * num_heads)


class HeadsTooWide(WrapperBase):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.heads = nn.ModuleList(SingleHeadAttention(d_in, d_out, causal=False) for _ in range(num_heads))


class OwnHead(nn.Module):
    def __init__(self, d_in, width):
        super().__init__()
        self.qkv = nn.Parameter(torch.randn(3, d_in, width))

    def forward(self, x):
        return F.scaled_dot_product_attention(*(x @ matrix for matrix in self.qkv))


class OwnHeads(WrapperBase):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.heads = nn.ModuleList([OwnHead(d_in, d_out // num_heads) for _ in range(num_heads)])


class AsInTheLesson(WrapperBase):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        width = d_out // num_heads
        self.heads = nn.ModuleList(SingleHeadAttention(d_in, width) for _ in range(num_heads))


class FirstHeadOnly(WrapperBase):
    def forward(self, x):
        return self.out_proj(torch.cat([self.heads[0](x) for _ in self.heads], -1))


class AddsHeads(WrapperBase):
    def forward(self, x):
        return self.out_proj(torch.stack([one(x) for one in self.heads]).mean(0).repeat(1, 1, len(self.heads)))


RIGHT = {
    "two_heads": [
        two_by_hand,
        two_by_stack,
        lambda x, q, k, v: torch.hstack([head(x, q[i], k[i], v[i]) for i in (0, 1)]),
    ],
    "mix_heads": [
        mix_by_sum,
        lambda c, w: F.linear(torch.cat(c, -1), w),
        lambda c, w: torch.einsum("hbtd,ohd->bto", torch.stack(c), w.unflatten(1, (len(c), -1))),
    ],
    "Wrapper": [WrapperBase, WrapperThatAdds, OtherNames, OwnHeads],
}

WRONG = {
    "mix_heads": [
        (lambda c, w: c[0].mul_(2) @ w[:, : c[0].shape[2]].T, "input-modified"),
    ],
    "Wrapper": [
        (OneHeadManyTimes, "heads-share-weights"),
        (AsInTheLesson, "attention under a causal mask"),
        (FirstHeadOnly, "heads-share-weights"),
        (HeadsTooWide, "should be (6, ", "num_heads="),
        (AddsHeads, "heads-averaged"),
    ],
}
