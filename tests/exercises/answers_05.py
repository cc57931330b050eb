"""Answers to the exercises of lesson 05, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import MultiHeadAttention
from course_lib.attention.convert import wrapper_to_split


def scores_by_loop(queries, keys):
    heads = [queries[:, h] @ keys[:, h].transpose(1, 2) for h in range(queries.shape[1])]
    return torch.stack(heads, 1) / queries.shape[3] ** 0.5


class Split(nn.Module):
    """The right one, in pieces that wrong ones replace."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

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
    """Packed, with other names: only the doctor can judge it."""

    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.c_attn = nn.Linear(d_in, 3 * d_out)
        self.c_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (each.view(b, t, self.num_heads, -1).transpose(1, 2) for each in self.c_attn(x).chunk(3, -1))
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(context.transpose(1, 2).reshape(b, t, -1))


class MaskDiscarded(Split):
    def weigh(self, scores):
        scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        return scores.softmax(-1)


class CutByView(Split):
    def cut(self, x):
        return x.view(x.shape[0], self.num_heads, x.shape[1], self.head_dim)


class JoinedByReshape(Split):
    def join(self, context):
        return context.reshape(context.shape[0], context.shape[2], -1)


class ScoredWithValues(Split):
    def forward(self, x):
        queries, keys, values = self.cut(self.q_proj(x)), self.cut(self.k_proj(x)), self.cut(self.v_proj(x))
        weights = self.weigh(queries @ values.transpose(2, 3) / keys.shape[-1] ** 0.5)
        return self.out_proj(self.join(weights @ values))


class MaskedWithZero(Split):
    def weigh(self, scores):
        return scores.tril().softmax(-1)


class OutProjForgotten(Split):
    def forward(self, x):
        queries, keys, values = self.cut(self.q_proj(x)), self.cut(self.k_proj(x)), self.cut(self.v_proj(x))
        return self.join(self.weigh(queries @ keys.transpose(2, 3) / self.head_dim**0.5) @ values)


class ScaledByWidth(Split):
    def forward(self, x):
        queries, keys, values = self.cut(self.q_proj(x)), self.cut(self.k_proj(x)), self.cut(self.v_proj(x))
        weights = self.weigh(queries @ keys.transpose(2, 3) / self.out_proj.in_features**0.5)
        return self.out_proj(self.join(weights @ values))


class OutProjTooNarrow(Split):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__(d_in, d_out, num_heads)
        self.out_proj = nn.Linear(d_out, d_in, bias=False)


def convert_by_state(wrapper):
    split = MultiHeadAttention(wrapper.heads[0].q_proj.in_features, wrapper.out_proj.out_features, len(wrapper.heads))
    names = ("q_proj.weight", "k_proj.weight", "v_proj.weight")
    state = {name: torch.cat([head.state_dict()[name] for head in wrapper.heads]) for name in names}
    split.load_state_dict(state | {"out_proj.weight": wrapper.out_proj.weight})
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


def converting(change):
    def convert(wrapper):
        split = convert_by_state(wrapper)
        with torch.no_grad():
            change(split, wrapper)
        return split

    return convert


def interleave(split, wrapper):
    for role in ("q_proj", "k_proj", "v_proj"):
        for at, head in enumerate(wrapper.heads):
            getattr(split, role).weight[at :: len(wrapper.heads)] = getattr(head, role).weight


def first_head(split, wrapper):
    for role in ("q_proj", "k_proj", "v_proj"):
        getattr(split, role).weight.copy_(getattr(wrapper.heads[0], role).weight.repeat(len(wrapper.heads), 1))


def without_out_proj(wrapper):
    right = convert_by_state(wrapper)
    split = MultiHeadAttention(right.q_proj.in_features, right.out_proj.in_features, right.num_heads)
    split.q_proj, split.k_proj, split.v_proj = right.q_proj, right.k_proj, right.v_proj
    return split


RIGHT = {
    "scores_by_head": [
        scores_by_loop,
        lambda q, k: q / q.shape[-1] ** 0.5 @ k.mT,
        lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5,
    ],
    "MultiHead": [SplitByLoop, SplitFused, SplitPacked, Split],
    "to_split": [convert_by_state, convert_row_by_row, wrapper_to_split],
}

WRONG = {
    "scores_by_head": [
        (lambda q, k: q @ k.transpose(2, 3), "missing-scale"),
        (lambda q, k: q @ k.transpose(2, 3) / (q.shape[1] * q.shape[3]) ** 0.5, "wrong-scale", "over all heads"),
        (lambda q, k: q @ k.transpose(2, 3) / q.shape[3], "wrong-scale", "without the root"),
        (lambda q, k: k @ q.transpose(2, 3) / q.shape[3] ** 0.5, "queries and keys are exchanged"),
        (lambda q, k: torch.einsum("bhqd,bhkd->bqk", q, k) / q.shape[3] ** 0.5, "heads-share-scores"),
        (lambda q, k: q @ k.transpose(1, 2) / q.shape[3] ** 0.5, "stopped", "RuntimeError"),
        (lambda q, k: q.mul_(q.shape[3] ** -0.5) @ k.transpose(2, 3), "input-modified"),
    ],
    "MultiHead": [
        (MaskDiscarded, "mask-discarded"),
        (CutByView, "split-without-transpose"),
        (JoinedByReshape, "merge-without-transpose"),
        (ScoredWithValues, "scores-from-values"),
        (MaskedWithZero, "mask-with-zero"),
        (OutProjForgotten, "output-projection-missing"),
        (ScaledByWidth, "wrong-scale"),
        (OutProjTooNarrow, "output-projection-shape"),
    ],
    "to_split": [
        (converting(interleave), "interleaved"),
        (converting(first_head), "heads-share-weights"),
        (converting(lambda split, wrapper: split.k_proj.weight.copy_(split.q_proj.weight)), "projection-reused"),
        (converting(lambda split, wrapper: split.v_proj.weight.copy_(split.k_proj.weight)), "projection-reused"),
        (converting(lambda split, w: split.out_proj.weight.copy_(w.out_proj.weight.T)), "whose W^O is turned"),
        (without_out_proj, "`out_proj.weight` is off"),
        (lambda wrapper: wrapper, "give back a MultiHeadAttention, not a MultiHeadAttentionWrapper"),
        (lambda wrapper: wrapper_to_split(wrapper).state_dict(), "give back a MultiHeadAttention, not a"),
    ],
}
