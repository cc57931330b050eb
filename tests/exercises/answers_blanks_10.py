"""Answers to the blanks of lesson 10, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F
from torch import nn


def window_by_loop(num_tokens, window):
    keep = torch.zeros(num_tokens, num_tokens, dtype=torch.bool)
    for query in range(num_tokens):
        keep[query, max(0, query - window + 1) : query + 1] = True
    return keep


def window_by_triangles(num_tokens, window):
    ones = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    return ones.tril() & ones.triu(1 - window)


def sink_by_formula(scores, sink_logits, guard=True):
    sinks = sink_logits.view(-1, 1, 1)
    largest = torch.maximum(scores.amax(-1, keepdim=True), sinks) if guard else 0.0
    exponentials = (scores - largest).exp()
    return exponentials / (exponentials.sum(-1, keepdim=True) + (sinks - largest).exp())


def sink_by_largest_of_keys(scores, sink_logits):
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    return exponentials / (exponentials.sum(-1, keepdim=True) + sink_logits.view(-1, 1, 1).exp())


def sink_by_padding(scores, sink_logits):
    padded = F.pad(scores, (1, 0))
    padded[:, :, 0] = sink_logits[:, None]
    return padded.softmax(-1)[..., 1:]


def sink_by_log(scores, sink_logits):
    total = torch.logaddexp(scores.logsumexp(-1), sink_logits[:, None])
    return (scores - total[..., None]).exp()


def bits_by_loop(x, bits):
    rows = x.reshape(-1, x.shape[-1])
    steps = [row.abs().max() / (2 ** (bits - 1) - 1) for row in rows]
    return torch.stack([(row / step).round() * step for row, step in zip(rows, steps, strict=True)]).view(x.shape)


def bits_by_norm(x, bits):
    largest = (1 << bits - 1) - 1
    scale = torch.linalg.vector_norm(x, ord=torch.inf, dim=-1, keepdim=True)
    return torch.round(x * largest / scale) * scale / largest


def bits_by_step(divide):
    def round_to_bits(x, bits):
        step = x.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
        return divide(x, step) * step

    return round_to_bits


def bits_with_step_of_one(x, bits):
    step = x.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
    step = torch.where(step == 0, 1.0, step)
    return (x / step).round() * step


def slot_by_walking(position, window, num_sinks):
    slot = 0
    for _ in range(position):
        slot = slot + 1 if slot + 1 < num_sinks + window else num_sinks
    return slot


def slot_by_subtraction(position, window, num_sinks):
    while position >= num_sinks + window:
        position -= window
    return position


class Ring(nn.Module):
    """Slots are counted by hand, and the oldest token comes first in the result."""

    def __init__(self, batch, num_kv_heads, window, head_dim, num_sinks=0):
        super().__init__()
        self.register_buffer("kept", torch.zeros(2, batch, num_kv_heads, window + num_sinks, head_dim))
        self.window, self.sinks = window, num_sinks
        self.length = 0

    def forward(self, key, value):
        position = self.length
        slot = position if position < self.sinks else self.sinks + (position - self.sinks) % self.window
        self.kept[0, :, :, slot], self.kept[1, :, :, slot] = key.squeeze(2), value.squeeze(2)
        self.length = position + 1
        order = list(range(min(self.length, self.kept.shape[3])))
        if self.length > len(order):
            ring = order[self.sinks :]
            order = order[: self.sinks] + ring[slot - self.sinks + 1 :] + ring[: slot - self.sinks + 1]
        return self.kept[0][:, :, order], self.kept[1][:, :, order]


class Shifting(nn.Module):
    """No ring: all tokens of the window move up by one slot, in place."""

    def __init__(self, batch, num_kv_heads, window, head_dim, num_sinks=0):
        super().__init__()
        self.register_buffer("keys", torch.zeros(batch, num_kv_heads, window + num_sinks, head_dim))
        self.register_buffer("values", torch.zeros(batch, num_kv_heads, window + num_sinks, head_dim))
        self.sinks = num_sinks
        self.length = 0

    def forward(self, key, value):
        for buffer, new in ((self.keys, key), (self.values, value)):
            if self.length < buffer.shape[2]:
                buffer[:, :, self.length : self.length + 1] = new
            else:
                buffer[:, :, self.sinks : -1] = buffer[:, :, self.sinks + 1 :].clone()
                buffer[:, :, -1:] = new
        self.length += 1
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]


class Growing(nn.Module):
    """Right results, and a tensor that is made anew in each step."""

    def __init__(self, batch, num_kv_heads, window, head_dim, num_sinks=0):
        super().__init__()
        self.window, self.sinks, self.length = window, num_sinks, 0
        self.keys = self.values = torch.zeros(batch, num_kv_heads, 0, head_dim, dtype=torch.float64)

    def cut(self, kept):
        dropped = kept.shape[2] - self.window - self.sinks
        return torch.cat([kept[:, :, : self.sinks], kept[:, :, self.sinks + max(0, dropped) :]], dim=2)

    def forward(self, key, value):
        self.keys = self.cut(torch.cat([self.keys.to(key), key], dim=2))
        self.values = self.cut(torch.cat([self.values.to(value), value], dim=2))
        self.length += 1
        return self.keys, self.values


class TooWide(Ring):
    """More slots than the window needs."""

    def __init__(self, batch, num_kv_heads, window, head_dim, num_sinks=0):
        super().__init__(batch, num_kv_heads, window, head_dim, num_sinks)
        self.register_buffer("more", torch.zeros(2, batch, num_kv_heads, 1000, head_dim))


class Uncounted(Ring):
    def forward(self, key, value):
        self.position = getattr(self, "position", -1) + 1
        self.length = self.position
        result = super().forward(key, value)
        self.length = min(self.length, self.window + self.sinks)
        return result


class SinksInTheWindow(Ring):
    """Where there is room for the sinks in the window, they take it."""

    def __init__(self, batch, num_kv_heads, window, head_dim, num_sinks=0):
        super().__init__(batch, num_kv_heads, window - num_sinks * (num_sinks < window), head_dim, num_sinks)


class ValuesInOtherOrder(Ring):
    def forward(self, key, value):
        keys, values = super().forward(key, value)
        return keys, values.flip(2)


RIGHT = {
    "round_to_bits": [
        bits_by_loop,
        bits_by_norm,
        # a step of 0 is guarded against, or makes an integer of nan
        bits_with_step_of_one,
        bits_by_step(lambda x, step: (x / step.clamp(min=1e-12)).round()),
        bits_by_step(lambda x, step: (x / step).round().nan_to_num()),
        bits_by_step(lambda x, step: (x / (step + 1e-8)).round()),
        bits_by_step(lambda x, step: (x / step).round().to(torch.int8)),
    ],
    "window_mask": [window_by_loop, window_by_triangles],
    "sink_weights": [sink_by_formula, sink_by_padding, sink_by_log],
    "rolling_slot": [
        slot_by_walking,
        slot_by_subtraction,
        lambda p, w, s: p if p < s + w else s + (p - s) % w,
    ],
    "MyRollingCache": [Ring, Shifting],
}

WRONG = {
    "round_to_bits": [
        (lambda x, bits: bits_by_loop(x, bits + 1), "one bit more"),
        (
            lambda x, bits: (x / x.abs().max() * (2 ** (bits - 1) - 1)).round() * x.abs().max() / (2 ** (bits - 1) - 1),
            "be",
        ),
    ],
    "window_mask": [
        (lambda n, w: window_by_loop(n, w).float(), "bool"),
    ],
    "sink_weights": [
        (lambda s, z: torch.cat([s, z], -1).softmax(-1)[..., :-1], "stopped"),
        (sink_by_largest_of_keys, "not from the sink"),
    ],
    "rolling_slot": [
        (lambda p, w, s: s + (p - s) % w if p > s else p * (p < s), "it should be"),
    ],
    "MyRollingCache": [
        (Growing, "the buffers hold"),
        (TooWide, "the cache keeps"),
        (Uncounted, "in `length`"),
        (SinksInTheWindow, "has the shape"),
        (ValuesInOtherOrder, "be"),
        (lambda *sizes: Ring(*sizes), "the class itself"),
    ],
}
