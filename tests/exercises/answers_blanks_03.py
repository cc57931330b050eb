"""Answers to the blanks of lesson 03, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.exercises.lesson_02.my_causal_head import MyCausalHead


class WrapperBase(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        head_dim = d_out // num_heads
        self.heads = nn.ModuleList([MyCausalHead(d_in, head_dim) for _ in range(num_heads)])
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        return self.out_proj(torch.cat([head(x) for head in self.heads], -1))


class Adds(WrapperBase):
    def forward(self, x):
        blocks = self.out_proj.weight.chunk(len(self.heads), dim=1)
        return sum(head(x) @ block.T for head, block in zip(self.heads, blocks, strict=True))


class NoOutProj(WrapperBase):
    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], -1)


class FirstHeadOnly(WrapperBase):
    def forward(self, x):
        return self.out_proj(torch.cat([self.heads[0](x) for _ in self.heads], -1))


class Stacked(WrapperBase):
    def forward(self, x):
        return self.out_proj(torch.stack([head(x) for head in self.heads], -1).flatten(-2))


def two_by_loop(a, b, v):
    half = v.shape[1] // 2
    return torch.stack([(a if column < half else b) @ v[:, column] for column in range(2 * half)])


def head_by_padding(context, w_o, head):
    width = context.shape[-1]
    return F.linear(F.pad(context, (head * width, w_o.shape[1] - (head + 1) * width)), w_o)


RIGHT = {
    "two_mixes": [
        two_by_loop,
        lambda a, b, v: torch.cat([row @ half for row, half in zip((a, b), v.chunk(2, dim=1), strict=True)]),
        lambda a, b, v: torch.einsum("hk,khd->hd", torch.stack([a, b]), v.unflatten(1, (2, -1))).flatten(),
    ],
    "output_of_head": [
        head_by_padding,
        lambda c, w, head: c @ w.split(c.shape[-1], dim=1)[head].T,
        lambda c, w, head: torch.einsum("btd,od->bto", c, w.unflatten(1, (-1, c.shape[-1]))[:, head]),
    ],
    "MyWrapper": [WrapperBase, Adds],
}

WRONG = {
    "two_mixes": [
        (lambda a, b, v: torch.stack([a @ v[:, : v.shape[1] // 2], b @ v[:, v.shape[1] // 2 :]]), "shape"),
    ],
    "output_of_head": [
        (lambda c, w, head: c @ w.T, "stopped", "RuntimeError"),
        (lambda c, w, head: c @ w.split(c.shape[-1], dim=1)[-1 - head].T, "counted from the end"),
    ],
    "MyWrapper": [
        (NoOutProj, "output-projection-missing"),
        (FirstHeadOnly, "heads-share-weights"),
        (Stacked, "merge-without-transpose"),
    ],
}
