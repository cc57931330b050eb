"""Answers to the exercises of lesson 01, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn


def scores_by_loop(query, keys):
    scores = torch.zeros(len(keys), dtype=keys.dtype)
    for at, key in enumerate(keys):
        for q, k in zip(query, key, strict=True):
            scores[at] += q * k
    return scores


def scaled_by_loop(queries, keys):
    rows = [torch.stack([query @ key for key in keys]) for query in queries]
    return torch.stack(rows) / queries.shape[1] ** 0.5


def softmax_by_loop(scores):
    weights = torch.empty_like(scores)
    for at, row in enumerate(scores):
        row = torch.exp(row - row.max())
        weights[at] = row / row.sum()
    return weights


def softmax_in_place(scores):
    scores -= scores.max(-1, keepdim=True).values
    return scores.exp() / scores.exp().sum(-1, keepdim=True)


def attention_by_loop(queries, keys, values):
    context = torch.zeros(len(queries), values.shape[1], dtype=values.dtype)
    for at, query in enumerate(queries):
        weights = torch.softmax(torch.stack([query @ key for key in keys]) / len(query) ** 0.5, 0)
        for weight, value in zip(weights, values, strict=True):
            context[at] += weight * value
    return context


class HeadBase(nn.Module):
    def __init__(self, d_in, head_dim, d_out):
        super().__init__()
        self.q_proj = nn.Linear(d_in, head_dim, bias=False)
        self.k_proj = nn.Linear(d_in, head_dim, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)

    def roles(self, x):
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)


class PlainHead(HeadBase):
    def forward(self, x):
        q, k, v = self.roles(x)
        return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


class EinsumHead(HeadBase):
    def forward(self, x):
        q, k, v = self.roles(x)
        weights = torch.einsum("bqd,bkd->bqk", q, k).mul(q.shape[-1] ** -0.5).softmax(2)
        return torch.einsum("bqk,bkd->bqd", weights, v)


class PackedHead(nn.Module):
    """Other names, one projection for all three, PyTorch's kernel."""

    def __init__(self, d_in, head_dim, d_out):
        super().__init__()
        self.widths = [head_dim, head_dim, d_out]
        self.qkv = nn.Linear(d_in, sum(self.widths), bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).split(self.widths, dim=-1)
        return F.scaled_dot_product_attention(q, k, v)


class ParameterHead(nn.Module):
    def __init__(self, d_in, head_dim, d_out):
        super().__init__()
        self.W_v = nn.Parameter(torch.randn(d_in, d_out))
        self.W_q = nn.Parameter(torch.randn(d_in, head_dim))
        self.W_k = nn.Parameter(torch.randn(d_in, head_dim))

    def forward(self, x):
        contexts = []
        for sample in x:
            scores = sample @ self.W_q @ (sample @ self.W_k).T / self.W_q.shape[1] ** 0.5
            contexts.append(scores.softmax(-1) @ sample @ self.W_v)
        return torch.stack(contexts)


class UnscaledHead(HeadBase):
    def forward(self, x):
        q, k, v = self.roles(x)
        return (q @ k.transpose(1, 2)).softmax(-1) @ v


class HeadWithoutSoftmax(HeadBase):
    def forward(self, x):
        q, k, v = self.roles(x)
        return q @ k.transpose(1, 2) / k.shape[-1] ** 0.5 @ v


class HeadThatChangesItsInput(HeadBase):
    def forward(self, x):
        x += 1.0
        q, k, v = self.roles(x)
        return (q @ k.transpose(1, 2) / k.shape[-1] ** 0.5).softmax(-1) @ v


class CausalHead(HeadBase):
    def forward(self, x):
        return F.scaled_dot_product_attention(*self.roles(x), is_causal=True)


RIGHT = {
    "scores_of_token": [scores_by_loop, lambda q, k: k @ q, lambda q, k: torch.einsum("d,kd->k", q, k)],
    "scaled_scores": [
        scaled_by_loop,
        lambda q, k: q / q.shape[-1] ** 0.5 @ k.T,
        lambda q, k: torch.einsum("qd,kd->qk", q, k).div(q.shape[1] ** 0.5),
    ],
    "softmax_rows": [
        softmax_by_loop,
        lambda s: F.softmax(s, dim=1),
        lambda s: (s - s.logsumexp(-1, keepdim=True)).exp(),
    ],
    "attention": [
        attention_by_loop,
        F.scaled_dot_product_attention,
        lambda q, k, v: torch.einsum("qk,kd->qd", torch.softmax(q @ k.T * q.shape[1] ** -0.5, 1), v),
    ],
    "SingleHead": [PlainHead, EinsumHead, PackedHead, ParameterHead],
}

WRONG = {
    "scores_of_token": [
        (lambda q, k: (k @ q).long(), "int64; it should be float64"),
    ],
    "scaled_scores": [
        (lambda q, k: q @ k / 7**0.5, "stopped", "RuntimeError"),
        (lambda q, k: q @ k.T / 7**0.5, "times the right one"),
    ],
    "softmax_rows": [
        (softmax_in_place, "input-modified"),
    ],
    "attention": [
        (lambda q, k, v: F.scaled_dot_product_attention(q[None], k[None], v[None]), "= (query, width)"),
    ],
    "SingleHead": [
        (UnscaledHead, "missing-scale"),
        (HeadWithoutSoftmax, "no-softmax"),
        (HeadThatChangesItsInput, "input-modified"),
        (PlainHead(7, 5, 6), "The answer is an instance; give the class itself, without parentheses."),
        (CausalHead, "attention under a causal mask", "Which tokens may a token see here"),
    ],
}
