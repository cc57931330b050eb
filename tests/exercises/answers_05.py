"""Answers to the exercises of lesson 05, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.attention.convert import wrapper_to_split
from tests.exercises.written_answers import variant


def scores_by_loop(queries, keys):
    heads = [queries[:, h] @ keys[:, h].transpose(1, 2) for h in range(queries.shape[1])]
    return torch.stack(heads, 1) / queries.shape[3] ** 0.5


class Split(nn.Module):
    """The right one, in pieces that wrong ones replace."""

    def __init__(self, d_in, d_out, num_heads, head_dim=None):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim or d_out // num_heads
        width = self.num_heads * self.head_dim
        self.q_proj = nn.Linear(d_in, width, bias=False)
        self.k_proj = nn.Linear(d_in, width, bias=False)
        self.v_proj = nn.Linear(d_in, width, bias=False)
        self.out_proj = nn.Linear(width, d_out, bias=False)

    def cut(self, x):
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)

    def weigh(self, scores):
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1)

    def join(self, context):
        return context.transpose(1, 2).flatten(2)

    def forward(self, x):
        queries, keys, values = self.cut(self.q_proj(x)), self.cut(self.k_proj(x)), self.cut(self.v_proj(x))
        weights = self.weigh(queries @ keys.transpose(2, 3) / self.head_dim**0.5)
        return self.out_proj(self.join(weights @ values))


class SplitByLoop(Split):
    def forward(self, x):
        d = self.head_dim
        queries, keys, values = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        contexts = []
        for start in range(0, self.num_heads * d, d):
            q, k, v = (each[:, :, start : start + d] for each in (queries, keys, values))
            contexts.append(self.weigh(q @ k.transpose(1, 2) / d**0.5) @ v)
        return self.out_proj(torch.cat(contexts, -1))


class SplitFused(Split):
    def forward(self, x):
        queries, keys, values = (self.cut(each(x)) for each in (self.q_proj, self.k_proj, self.v_proj))
        return self.out_proj(self.join(F.scaled_dot_product_attention(queries, keys, values, is_causal=True)))


class SplitPacked(nn.Module):
    """Packed, with other names."""

    def __init__(self, d_in, d_out, num_heads, head_dim=None):
        super().__init__()
        self.num_heads, width = num_heads, num_heads * head_dim if head_dim else d_out
        self.c_attn = nn.Linear(d_in, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, d_out, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (each.view(b, t, self.num_heads, -1).transpose(1, 2) for each in self.c_attn(x).chunk(3, -1))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(context.transpose(1, 2).reshape(b, t, -1))


class SplitByEinsum(nn.Module):
    """One parameter per role, with an axis of heads."""

    def __init__(self, d_in, d_out, num_heads, head_dim=None):
        super().__init__()
        head_dim = head_dim or d_out // num_heads
        self.W_Q, self.W_K, self.W_V = (nn.Parameter(torch.randn(num_heads, d_in, head_dim)) for _ in range(3))
        self.W_O = nn.Parameter(torch.randn(num_heads, head_dim, d_out))

    def forward(self, x):
        q, k, v = (torch.einsum("btm,hmd->bhtd", x, W) for W in (self.W_Q, self.W_K, self.W_V))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
        later = torch.ones_like(scores[0, 0]).triu(1).bool()
        z = torch.einsum("bhqk,bhkd->bqhd", scores.masked_fill(later, -1e9).softmax(-1), v)
        return torch.einsum("bqhd,hdm->bqm", z, self.W_O)


class SplitPackedByHead(nn.Module):
    """The names of the solution, packed head by head."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv_proj = nn.Linear(d_in, 3 * d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def forward(self, x):
        q, k, v = self.qkv_proj(x).unflatten(2, (self.num_heads, 3, -1)).permute(3, 0, 2, 1, 4)
        return self.out_proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class MaskDiscarded(Split):
    def weigh(self, scores):
        scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        return scores.softmax(-1)


CutByView = variant(Split, cut=lambda self, x: x.view(x.shape[0], self.num_heads, x.shape[1], self.head_dim))
JoinedByReshape = variant(Split, join=lambda self, context: context.reshape(context.shape[0], context.shape[2], -1))


class ScoredWithValues(Split):
    def forward(self, x):
        queries, keys, values = self.cut(self.q_proj(x)), self.cut(self.k_proj(x)), self.cut(self.v_proj(x))
        weights = self.weigh(queries @ values.transpose(2, 3) / keys.shape[-1] ** 0.5)
        return self.out_proj(self.join(weights @ values))


MaskedWithZero = variant(Split, weigh=lambda self, scores: scores.tril().softmax(-1))


class OutProjForgotten(Split):
    def forward(self, x):
        queries, keys, values = self.cut(self.q_proj(x)), self.cut(self.k_proj(x)), self.cut(self.v_proj(x))
        return self.join(self.weigh(queries @ keys.transpose(2, 3) / self.head_dim**0.5) @ values)


def convert_by_state(wrapper):
    split = MultiHeadAttention(wrapper.heads[0].q_proj.in_features, wrapper.out_proj.out_features, len(wrapper.heads))
    names = ("q_proj.weight", "k_proj.weight", "v_proj.weight")
    state = {name: torch.cat([head.state_dict()[name] for head in wrapper.heads]) for name in names}
    split.load_state_dict(state | {"out_proj.weight": wrapper.out_proj.weight})
    return split


def convert_backwards(wrapper):
    """The heads in reverse order, and the columns of W^O with them."""
    heads, split = wrapper.heads[::-1], convert_by_state(wrapper)
    with torch.no_grad():
        for role in ("q_proj", "k_proj", "v_proj"):
            getattr(split, role).weight.copy_(torch.cat([getattr(head, role).weight for head in heads]))
        columns = wrapper.out_proj.weight.split(wrapper.head_dim, dim=1)
        split.out_proj.weight.copy_(torch.cat(columns[::-1], dim=1))
    return split


def convert_row_by_row(wrapper):
    width = wrapper.out_proj.in_features
    split = MultiHeadAttention(wrapper.heads[0].q_proj.in_features, width, wrapper.num_heads)
    with torch.no_grad():
        for role in ("q_proj", "k_proj", "v_proj"):
            for row in range(width):
                head = wrapper.heads[row // wrapper.head_dim]
                getattr(split, role).weight[row] = getattr(head, role).weight[row % wrapper.head_dim]
        split.out_proj.weight.copy_(wrapper.out_proj.weight)
    return split


def convert_by_hand(wrapper, num_heads=None, **options):
    d_in, d_out = wrapper.heads[0].q_proj.in_features, wrapper.out_proj.out_features
    split = MultiHeadAttention(d_in, d_out, num_heads or wrapper.num_heads, **options)
    with torch.no_grad():
        for role in ("q_proj", "k_proj", "v_proj"):
            getattr(split, role).weight.copy_(torch.cat([getattr(head, role).weight for head in wrapper.heads]))
        split.out_proj.weight.copy_(wrapper.out_proj.weight)
    return split


def stacked_state(wrapper):
    split = convert_by_state(wrapper)
    stacked = torch.stack([head.q_proj.weight for head in wrapper.heads])
    split.load_state_dict(split.state_dict() | {"q_proj.weight": stacked})
    return split


def in_place_with_gradient(wrapper):
    split = convert_by_state(wrapper)
    split.out_proj.weight.copy_(wrapper.out_proj.weight)
    return split


RIGHT = {
    "order_of_lines": [
        lambda: "FIBDHKAEJGC",
        lambda: "f i b d k h a e j g c",  # a hidden score stays minus infinity, scaled or not
        lambda: list("FIBDHKAEJGC"),
        lambda: "F, I, B, D, H, K, A, E, J, G, C",
    ],
    "scores_by_head": [
        scores_by_loop,
        lambda q, k: q / q.shape[-1] ** 0.5 @ k.mT,
        lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5,
    ],
    "MultiHead": [SplitByLoop, SplitFused, SplitPacked, Split, SplitByEinsum],
    "MyMultiHeadAttention": [SplitByLoop, SplitFused, SplitPacked, Split, SplitByEinsum, SplitPackedByHead],
    "to_torch_mha": [
        lambda q, k, v, out: (torch.vstack((q, k, v)), out.clone()),
        lambda q, k, v, out: [torch.stack((q, k, v)).flatten(0, 1), out],
        lambda *weights: (torch.cat(weights[:3], dim=0), weights[3]),
        lambda q, k, v, out: (torch.tensor([*q.tolist(), *k.tolist(), *v.tolist()], dtype=q.dtype), out),
    ],
    "to_split": [convert_by_state, convert_row_by_row, convert_backwards, wrapper_to_split],
}

WRONG = {
    "order_of_lines": [
        (lambda: "IFBDHKAEJGC", "Line I", "reads `queries`, and no line before it makes that"),
        (lambda: "FIBDHKAEGJC", "All lines run in this order, and the result is another"),
        (lambda: "FBIDHKAEJGC", "Line"),
        (lambda: "FDIBHKAEJGC", "Line D", "can't be run at place 2: Dimension out of range"),
        (lambda: "FIBDHKAEJG", "Each of the 11 letters is needed once, and C is missing"),
        (lambda: "FIBDHKAEJGCC", "a letter stands there twice"),
        (lambda: 7, "it should be a string of letters"),
    ],
    "scores_by_head": [
        (lambda q, k: q @ k.transpose(1, 2) / q.shape[3] ** 0.5, "stopped", "RuntimeError"),
    ],
    "MultiHead": [
        (MaskDiscarded, "mask-discarded"),
        (CutByView, "split-without-transpose"),
        (JoinedByReshape, "merge-without-transpose"),
        (ScoredWithValues, "scores-from-values"),
        (MaskedWithZero, "mask-with-zero"),
    ],
    "MyMultiHeadAttention": [
        (variant(Split, weigh=lambda self, scores: scores.softmax(-1)), "no-causal-mask"),
        (JoinedByReshape, "merge-without-transpose"),
        (MaskedWithZero, "mask-with-zero"),
    ],
    "to_torch_mha": [
        (lambda q, k, v, out: torch.cat([q, k, v]), "it should be 2 values"),
        (lambda q, k, v, out: {"in_proj_weight": torch.cat([q, k, v]), "out_proj": out}, "gives back a dict"),
        (lambda q, k, v, out: (torch.cat([q, k, v, out]), out), "`in_proj_weight` is off"),
        (lambda q, k, v, out: (torch.cat([q, k, v.T]), out), "`in_proj_weight` is off"),
    ],
    "to_split": [
        (stacked_state, "A matrix has another number of axes than its parameter"),
        (in_place_with_gradient, "only under `torch.no_grad()`"),
        (lambda w: convert_by_hand(w, bias=True), "has `q_proj.bias`", "without bias"),
        (lambda w: convert_by_hand(w, num_heads=w.num_heads * w.head_dim), "`num_heads` is off"),
        (lambda wrapper: wrapper, "give back a MultiHeadAttention, and gives back a MultiHeadAttentionWrapper"),
    ],
}
