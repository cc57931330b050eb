"""Answers to the blanks of lesson 08, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.exercises.written_answers import variant


def pad_by_lists(rows, side):
    longest = max(map(len, rows))
    tokens, real = [], []
    for row in rows:
        gap, words = [0] * (longest - len(row)), [True] * len(row)
        hidden = [False] * len(gap)
        tokens.append(gap + row if side == "left" else row + gap)
        real.append(hidden + words if side == "left" else words + hidden)
    return torch.tensor(tokens), torch.tensor(real)


def pad_with_minus_one(rows, side):
    longest = max(len(row) for row in rows)
    gaps = [(longest - len(row), 0) if side == "left" else (0, longest - len(row)) for row in rows]
    tokens = torch.stack([F.pad(torch.tensor(row), gap, value=-1) for row, gap in zip(rows, gaps, strict=True)])
    return tokens, tokens != -1


def positions_by_loop(real):
    positions = torch.zeros(real.shape, dtype=torch.long)
    for sample, row in enumerate(real.tolist()):
        count = 0
        for token, is_real in enumerate(row):
            positions[sample, token] = count
            count += is_real
    return positions


def positions_by_first(real):
    first = real.long().argmax(dim=1, keepdim=True)
    return (torch.arange(real.shape[1]) - first).clamp(min=0)


def positions_where_real(real):
    return torch.where(real, torch.cumsum(real, 1) - 1, 0)


def positions_without_clamp(real):
    return torch.arange(real.shape[1]) - real.long().argmax(dim=1, keepdim=True)


def keep_by_positions(real):
    at = torch.arange(real.shape[1])
    return (at[:, None] >= at)[None, None] & real[:, None, None, :]


def keep_by_loop(real):
    batch, n = real.shape
    keep = torch.zeros(batch, 1, n, n, dtype=torch.bool)
    for sample in range(batch):
        for query in range(n):
            for key in range(query + 1):
                keep[sample, 0, query, key] = real[sample, key]
    return keep


def keep_without_rows_of_padding(real):
    return keep_by_loop(real) & real[:, None, :, None]


def keep_by_query(real):
    return torch.ones(real.shape[1], real.shape[1]).tril().bool() & real[:, None, :, None]


def write_by_loop(logits_of, tokens, real, num_new):
    for _ in range(num_new):
        logits = logits_of(tokens, real)
        new = [logits[b, int(real[b].nonzero()[-1])].argmax() for b in range(len(tokens))]
        tokens = torch.cat([tokens, torch.stack(new)[:, None]], 1)
        real = F.pad(real, (0, 1), value=True)
    return tokens, real


def write_by_flip(logits_of, tokens, real, num_new):
    for _ in range(num_new):
        last = real.shape[1] - 1 - real.flip(1).int().argmax(1)
        new = logits_of(tokens, real)[range(len(tokens)), last].argmax(-1)
        tokens, real = torch.column_stack([tokens, new]), torch.column_stack([real, torch.ones(len(new)).bool()])
    return tokens, real


def write_at(column_of):
    def write_batch(logits_of, tokens, real, num_new):
        columns = [column_of(real)] * num_new
        for number in range(num_new):
            column = column_of(real) if column_of is first_real else columns[number]
            new = logits_of(tokens, real)[torch.arange(len(tokens)), column].argmax(-1)
            tokens, real = torch.column_stack([tokens, new]), F.pad(real, (0, 1), value=True)
        return tokens, real

    return write_batch


def first_real(real):
    return real.int().argmax(1)


def last_real(real):
    return real.shape[1] - 1 - first_real(real.flip(1))


class Cross(nn.Module):
    """Everything by hand."""

    def __init__(self, d_in, d_context, num_heads):
        super().__init__()
        self.n = num_heads
        self.q_proj = nn.Linear(d_in, d_in, bias=False)
        self.k_proj = nn.Linear(d_context, d_in, bias=False)
        self.v_proj = nn.Linear(d_context, d_in, bias=False)
        self.out_proj = nn.Linear(d_in, d_in, bias=False)

    def split(self, x):
        return x.view(*x.shape[:2], self.n, -1).transpose(1, 2)

    def forward(self, x, context, keep=None):
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(context)), self.split(self.v_proj(context))
        return self.merge(self.mixed(q, k, v, keep))

    def merge(self, mixed):
        return self.out_proj(mixed.transpose(1, 2).flatten(2))

    def mixed(self, q, k, v, keep):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if keep is not None:
            scores = scores.masked_fill(~keep, -torch.inf)
        return scores.softmax(-1) @ v


# The fused function.
CrossFused = variant(Cross, mixed=lambda self, q, k, v, keep: F.scaled_dot_product_attention(q, k, v, attn_mask=keep))


class CrossOfItself(Cross):
    """The context is never read."""

    def forward(self, x, context, keep=None):
        return super().forward(x, x if x.shape[2] == context.shape[2] else context[:, :1], keep)


# No scale.
CrossUnscaled = variant(Cross, mixed=lambda self, q, k, v, keep: Cross.mixed(self, q * q.shape[-1] ** 0.5, k, v, keep))


class CrossWithOneMask(Cross):
    """All heads get the mask of the first."""

    def mixed(self, q, k, v, keep):
        return super().mixed(q, k, v, None if keep is None else keep[:, :1])


class CrossMaskedAfterwards(Cross):
    """Hidden weights become 0 after softmax."""

    def mixed(self, q, k, v, keep):
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        return (weights if keep is None else weights * keep) @ v


class CrossOfSquares(Cross):
    """Keys and values read a context as wide as x."""

    def __init__(self, d_in, d_context, num_heads):
        super().__init__(d_in, d_in, num_heads)


# No gradient reaches the keys.
CrossDetached = variant(Cross, mixed=lambda self, q, k, v, keep: Cross.mixed(self, q, k.detach(), v, keep))


RIGHT = {
    "pad_batch": [pad_by_lists, pad_with_minus_one],
    "real_positions": [positions_by_loop, positions_where_real],
    "batch_keep": [keep_by_positions, keep_by_loop, keep_without_rows_of_padding],
    "write_batch": [write_by_loop, write_by_flip],
    "MyCrossAttention": [Cross, CrossFused],
}

WRONG = {
    "pad_batch": [
        (lambda rows, side: pad_by_lists(rows, side)[0], "it should be"),
        (lambda rows, side: pad_by_lists(rows, "left"), "padding on the left, whatever `side` is"),
        (lambda rows, side: (pad_by_lists(rows, side)[0], pad_by_lists(rows, side)[1].int()), "it should be"),
    ],
    "real_positions": [
        (positions_without_clamp, "it should be"),
        (positions_by_first, "columns counted from the first real word"),
        (lambda real: (real.double().cumsum(1) - 1).clamp(min=0), "it should be int64"),
        (lambda real: real.sum(1) - 1, "has the shape"),
    ],
    "batch_keep": [
        (lambda real: real[:, None] & torch.ones(real.shape[1], real.shape[1]).tril().bool(), "mask-rank"),
        (lambda real: ~keep_by_loop(real), "mask-inverted"),
        (keep_by_query, "padding is seen", "as a query, or as a key?"),
    ],
    "write_batch": [
        (lambda f, t, r, n: write_by_loop(f, t, torch.ones_like(r), n), "padding counts as real words"),
        (write_at(first_real), "after the first real word"),
        (write_at(last_real), "found once"),
    ],
    "MyCrossAttention": [
        (CrossUnscaled, "missing-scale"),
        # keep is thrown away.
        (variant(Cross, mixed=lambda self, q, k, v, keep: Cross.mixed(self, q, k, v, None)), "mask-discarded"),
        (CrossWithOneMask, "mask of head 0"),
        (CrossMaskedAfterwards, "mask-after-softmax"),
        (CrossOfSquares, "`k_proj.weight` is"),
        (CrossDetached, "no gradient reaches `k_proj.weight`"),
        (CrossOfItself, "it should be"),
    ],
}
