"""Answers to the blanks of lesson 09, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.attention import apply_rotary, rotary_table
from tests.exercises.written_answers import variant


class Llama(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads, base=10000.0, max_len=512):
        super().__init__()
        self.base = base
        self.heads, self.kv_heads, self.width = num_heads, num_kv_heads, d_out // num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, num_kv_heads * self.width, bias=False)
        self.v_proj = nn.Linear(d_in, num_kv_heads * self.width, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)

    def rotated(self, q, k, v, start=0):
        table = [one[start:] for one in rotary_table(start + q.shape[2], self.width, rope_theta=self.base)]
        return apply_rotary(q, *table), apply_rotary(k, *table), v

    def stored(self, k, v, cache):
        return cache(k, v) if cache is not None else (k, v)

    def forward(self, x, positions=None, keep=None, cache=None):
        b, t, _ = x.shape
        start = cache.length if cache is not None else 0
        q = self.q_proj(x).reshape(b, t, self.heads, self.width).permute(0, 2, 1, 3)
        k = self.k_proj(x).reshape(b, t, self.kv_heads, self.width).permute(0, 2, 1, 3)
        v = self.v_proj(x).reshape(b, t, self.kv_heads, self.width).permute(0, 2, 1, 3)
        q, k, v = self.rotated(q, k, v, start)
        k, v = self.stored(k, v, cache)
        seen = torch.ones(t, k.shape[2], dtype=torch.bool).tril(k.shape[2] - t)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)
        return self.out_proj(mixed.permute(0, 2, 1, 3).reshape(b, t, -1))


class GroupedLlama(Llama):
    """The query heads that share a kv head on an axis of their own."""

    def forward(self, x, positions=None, keep=None, cache=None):
        start = 0 if cache is None else cache.length
        q, k, v = (
            one.unflatten(2, (-1, self.width)).transpose(1, 2)
            for one in (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        )
        q, k, v = self.rotated(q, k, v, start)
        k, v = self.stored(k, v, cache)
        q = q.unflatten(1, (self.kv_heads, -1))  # (b, g, group, t, d)
        scores = torch.einsum("bgrqd,bgkd->bgrqk", q, k) / self.width**0.5
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1 + start)
        mixed = torch.einsum("bgrqk,bgkd->bgrqd", scores.softmax(-1), v).flatten(1, 2)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class RotatesByAngle(Llama):
    """No table: the angles are computed from the positions."""

    def rotated(self, q, k, v, start=0):
        position = torch.arange(start, start + q.shape[2], dtype=torch.float64)
        angle = position[:, None] * self.base ** (-2 * torch.arange(self.width // 2) / self.width)
        return apply_rotary(q, angle.cos(), angle.sin()), apply_rotary(k, angle.cos(), angle.sin()), v


class BaseOfLlama2(Llama):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads, base=10000.0, max_len=512):
        super().__init__(d_in, d_out, num_heads, num_kv_heads)


class RoomFor512(Llama):
    """The table has 512 rows, whatever `max_len` is."""

    def rotated(self, q, k, v, start=0):
        at = torch.arange(start, start + q.shape[2])
        table = [one[at] for one in rotary_table(512, self.width, rope_theta=self.base)]
        return apply_rotary(q, *table), apply_rotary(k, *table), v


class FoldedWrong(Llama):
    """The queries are folded without a thought for which heads share a kv head."""

    def forward(self, x, positions=None, keep=None, cache=None):
        start = 0 if cache is None else cache.length
        q, k, v = (
            one.unflatten(2, (-1, self.width)).transpose(1, 2)
            for one in (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        )
        q, k, v = self.rotated(q, k, v, start)
        k, v = self.stored(k, v, cache)
        rows = q.unflatten(1, (-1, self.kv_heads)).transpose(1, 2).flatten(2, 3)  # heads 0, 2, 4 ask kv head 0
        scores = (rows @ k.mT * self.width**-0.5).unflatten(2, (-1, x.shape[1]))
        scores = scores + torch.full(scores.shape[-2:], -torch.inf).triu(1 + start)
        mixed = (scores.softmax(-1).flatten(2, 3) @ v).unflatten(2, (-1, x.shape[1])).transpose(1, 2).flatten(1, 2)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class MasksRows(Llama):
    """The folded scores are masked as they are, the mask once for each head of a group."""

    def rows(self, seen):
        return seen.repeat(self.heads // self.kv_heads, 1)

    def forward(self, x, positions=None, keep=None, cache=None):
        b, t, _ = x.shape
        q, k, v = (one(x).unflatten(2, (-1, self.width)) for one in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        q, k, v = self.rotated(q, k, v, 0 if cache is None else cache.length)
        k, v = self.stored(k, v, cache)
        scores = q.reshape(b, self.kv_heads, -1, self.width) @ k.mT / self.width**0.5
        seen = self.rows(torch.ones(t, k.shape[2]).tril(k.shape[2] - t).bool())
        mixed = scores.masked_fill(~seen, -torch.inf).softmax(-1) @ v
        return self.out_proj(mixed.view(q.shape).transpose(1, 2).flatten(2))


class MasksRowsAsOneHead(MasksRows):
    def rows(self, seen):
        group, (t, k) = self.heads // self.kv_heads, seen.shape
        return torch.ones(group * t, k).tril(k - t).bool()


MasksRowsOneByOne = variant(MasksRows, rows=lambda self, seen: seen.repeat_interleave(self.heads // self.kv_heads, 0))


RotatedQueries = variant(Llama, rotated=lambda self, q, k, v, start=0: (Llama.rotated(self, q, q, v, start)[0], k, v))


class RotatedValues(Llama):
    def rotated(self, q, k, v, start=0):
        q, k, _ = super().rotated(q, k, v, start)
        return q, k, super().rotated(v, v, v, start)[0]


StartsAnew = variant(Llama, rotated=lambda self, q, k, v, start=0: Llama.rotated(self, q, k, v))


class NeverReads(Llama):
    def stored(self, k, v, cache):
        super().stored(k, v, cache)
        return k, v


class StoresCopies(Llama):
    def stored(self, k, v, cache):
        copies = self.heads // self.kv_heads
        return super().stored(k.repeat_interleave(copies, 1), v.repeat_interleave(copies, 1), cache)


class StoresBeforeRotating(Llama):
    def rotated(self, q, k, v, start=0):
        self.start = start
        return super().rotated(q, q, v, start)[0], k, v

    def stored(self, k, v, cache):
        k, v = super().stored(k, v, cache)
        return super().rotated(k, k, v, self.start)[0], v


class RotatedWhenRead(StoresBeforeRotating):
    def stored(self, k, v, cache):
        self.start = 0
        return super().stored(k, v, cache)


class AlignedAtTheStart(Llama):
    def forward(self, x, positions=None, keep=None, cache=None):
        return super().forward(x, cache=cache) if cache is None or cache.length == 0 else self.later(x, cache)

    def later(self, x, cache):
        shown = torch.ones(x.shape[1], cache.length + x.shape[1], dtype=torch.bool).tril()
        q, k, v = (one(x).unflatten(2, (-1, self.width)) for one in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        q, k, v = self.rotated(q, k, v, cache.length)
        k, v = cache(k, v)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=shown, enable_gqa=True)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class Fused(Llama):
    """The fused function masks wherever several tokens come, from the top left corner."""

    def masks(self, tokens, cache):
        return tokens > 1

    def forward(self, x, positions=None, keep=None, cache=None):
        q, k, v = (one(x).unflatten(2, (-1, self.width)) for one in (self.q_proj, self.k_proj, self.v_proj))
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        q, k, v = self.rotated(q, k, v, 0 if cache is None else cache.length)
        k, v = self.stored(k, v, cache)
        is_causal = self.masks(x.shape[1], cache)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
        return self.out_proj(mixed.transpose(1, 2).flatten(2))


class Unscaled(Llama):
    def rotated(self, q, k, v, start=0):
        return super().rotated(q * self.width**0.5, k, v, start)


class Stacked(nn.Module):
    """One buffer for both, and slices by narrow."""

    def __init__(self, batch, num_kv_heads, max_len, head_dim):
        super().__init__()
        self.register_buffer("room", torch.zeros(2, batch, num_kv_heads, max_len, head_dim))
        self.length = 0

    def forward(self, keys, values):
        new = torch.stack([keys, values])
        if self.length + keys.shape[2] > self.room.shape[3]:
            raise ValueError("full")
        self.room.narrow(3, self.length, keys.shape[2]).copy_(new)
        self.length += keys.shape[2]
        return list(self.room.narrow(3, 0, self.length))


class Growing(nn.Module):
    """A cache that allocates anew in each step."""

    def __init__(self, batch, num_kv_heads, max_len, head_dim):
        super().__init__()
        self.keys = self.values = torch.zeros(batch, num_kv_heads, 0, head_dim)
        self.length, self.max_len = 0, max_len

    def forward(self, keys, values):
        if self.length + keys.shape[2] > self.max_len:
            raise ValueError("full")
        self.keys = torch.cat([self.keys, keys], dim=2)
        self.values = torch.cat([self.values, values], dim=2)
        self.length = self.keys.shape[2]
        return self.keys, self.values


class TakesAll(Growing):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.max_len = torch.inf


class FullTooEarly(Growing):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.max_len -= 1


class Asserts(TakesAll):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.room = sizes[2]

    def forward(self, keys, values):
        assert self.length + keys.shape[2] <= self.room
        return super().forward(keys, values)


class CountsAsFilled(Stacked):
    """The count is right, and has another name than `length`."""

    @property
    def length(self):
        return self.filled

    @length.setter
    def length(self, count):
        self.filled = count


class CountsUnseen(Growing):
    """It has no `length`: what is there tells how many."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        del self.length

    def forward(self, keys, values):
        self.keys, self.values = torch.cat([self.keys, keys], 2), torch.cat([self.values, values], 2)
        return self.keys, self.values


OnlyTheNew = variant(Stacked, forward=lambda self, keys, values: (keys, values))


class TheWholeRoom(Stacked):
    def forward(self, keys, values):
        super().forward(keys, values)
        return self.room[0], self.room[1]


class OneTokenPerCall(Growing):
    def forward(self, keys, values):
        return super().forward(keys[:, :, :1], values[:, :, :1])


class Forgets(Growing):
    def forward(self, keys, values):
        self.keys = torch.cat([self.keys, keys], dim=2)


class OneRoom(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, head_dim):
        super().__init__()
        room = torch.zeros(batch, num_kv_heads, max_len, head_dim)
        self.register_buffer("keys", room)
        self.register_buffer("values", room)
        self.length = 0

    def forward(self, keys, values):
        start, end = self.length, self.length + keys.shape[2]
        if self.refuses(end):
            raise ValueError(f"{end} tokens are too many")
        self.keys[:, :, start:end] = keys
        self.values[:, :, start:end] = values
        self.length = end
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def refuses(self, end):
        return end > self.keys.shape[2]


class TwoRooms(OneRoom):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.values = self.values.clone()


RefusesWhenFull = variant(TwoRooms, refuses=lambda self, end: self.length >= self.keys.shape[2])


class CountsFirst(TwoRooms):
    def refuses(self, end):
        self.length = end
        return super().refuses(end)


class ClearsFirst(TwoRooms):
    def refuses(self, end):
        if super().refuses(end):
            self.keys.zero_()
        return super().refuses(end)


class CopiesItsRoom(TwoRooms):
    def forward(self, keys, values):
        super().forward(keys, values)
        self.keys, self.values = self.keys.clone(), self.values.clone()
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


class WideStart(Growing):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.values = self.values.double()


RIGHT = {
    "MyLlamaAttention": [Llama, GroupedLlama, RotatesByAngle, MasksRows],
    "MyCache": [Stacked, TwoRooms, CountsAsFilled],
    "next_word": [
        lambda logits: torch.argmax(logits[:, -1, :], dim=1),
        lambda logits: torch.stack([sample[-1].softmax(0).argmax() for sample in logits]),
        lambda logits: logits[:, -1].topk(1).indices[:, 0],
    ],
}

WRONG = {
    "MyLlamaAttention": [
        (RotatedQueries, "only the queries are rotated"),
        (RotatedValues, "rotary-on-values", "whose values are rotated"),
        (variant(Llama, rotated=lambda self, q, k, v, start=0: (q.transpose(1, 2), k, v)), "stopped", "RuntimeError"),
        (BaseOfLlama2, "that rotates with base 10000, whatever the argument says"),
        (FoldedWrong, "kv-heads-tiled"),
        (RoomFor512, "stopped", "IndexError"),
        (StartsAnew, "whose positions start at 0 with each piece", "with a cache in pieces of"),
        (NeverReads, "that forgets the pieces before", "What does the cache return"),
        (StoresCopies, "stopped", "the cache, or the copies for the query heads?"),
        (MasksRowsAsOneHead, "over the rows of several heads"),
        (MasksRowsOneByOne, "whose rows are repeated one by one"),
        (RotatedWhenRead, "keeps the keys as they are before the rotation"),
        (StoresBeforeRotating, "your result is", "with a cache in pieces of"),
        (AlignedAtTheStart, "causal-top-left"),
        (Fused, "causal-top-left", "wherever several new tokens meet a cache"),
        (variant(Fused, masks=lambda self, tokens, cache: cache is None), "without a mask where there is a cache"),
        (Unscaled, "missing-scale"),
    ],
    "MyCache": [
        (TakesAll, "A call with 1 new token and room for 0 is taken without an error; it should raise a ValueError"),
        (FullTooEarly, "with ValueError: full"),
        (Asserts, "raises the error AssertionError; it should raise a ValueError"),
        (RefusesWhenFull, "A call with 2 new tokens and room for 1 raises the error RuntimeError"),
        (CountsFirst, "too late", "there was room for it"),
        (ClearsFirst, "too late", "Then one token came: Of the parts, `keys` is off"),
        (Growing, "the buffers hold 0 numbers", "leaves behind: `keys` and `values`"),
        (CopiesItsRoom, "a call makes `keys` anew"),
        (CountsUnseen, "has no integer `length`; `length` should be"),
        (OnlyTheNew, "token-missing-from-cache", "the old ones are forgotten"),
        (TheWholeRoom, "the whole room"),
        (OneTokenPerCall, "has the shape"),
        (Forgets, "returns-none"),
        (OneRoom, "the values twice"),
        (WideStart, "`values` is off", "float64; it should be float32"),
    ],
    "next_word": [
        (lambda logits: logits[:, -1].argmax(), "has the shape"),
        (lambda logits: logits[:, -1].argmax(-1, keepdim=True), "or `keepdim=True`?"),
    ],
}
