"""Inputs that are code, drawn anew: functions that may leak, modules with dead parameters, wrappers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .draw import Draw
from .made import Made

LOOKS = """
import torch

def looks_at(keep):
    def code(x):
        seen = keep[: x.shape[1], : x.shape[1]]
        scores = torch.where(seen, x @ x.transpose(1, 2) * x.shape[-1] ** -0.5, -torch.inf)
        return scores.softmax(-1) @ x

    return code
"""

PATIENT = """
from torch import nn

class Patient(nn.Module):
    def __init__(self, projections):
        super().__init__()
        for name, weight in projections:
            linear = nn.Linear(*weight.shape, bias=False, device="meta")
            linear.weight = nn.Parameter(weight)
            self.add_module(name, linear)

    def forward(self, x):
        queries, keys, values = {q}, {k}, {v}
        scores = queries @ keys.transpose(1, 2) * queries.shape[-1] ** -0.5
        x = scores.softmax(-1) @ values
        return {out}
"""

WRAPPER = """
import torch
from course_lib.attention import MultiHeadAttentionWrapper

def wrapper(d_in, d_out, num_heads, *weights):
    made = MultiHeadAttentionWrapper(d_in, d_out, num_heads)
    with torch.no_grad():
        for parameter, weight in zip(made.parameters(), weights, strict=True):
            parameter.copy_(weight)
    return made
"""

# How a projection of x may take part: it does, it is never called, or what it gives is multiplied by zero.
USED, UNUSED, HUSHED = "self.{name}(x)", "x", "(x + 0.0 * self.{name}(x))"


def _tight(num_tokens: int, draw: Draw) -> Tensor:
    """A mask under which nothing leaks: all that came before, a band of it, some of it, oneself, or the first token."""
    causal = torch.ones(num_tokens, num_tokens).tril().bool()
    some = (draw.numbers(num_tokens, num_tokens) > 0).fill_diagonal_(True)
    first = torch.arange(num_tokens) == 0
    return causal & draw.pick([causal, causal.triu(-1 - draw.below(3)), some, causal.triu(), first])


def _leaky(num_tokens: int, draw: Draw) -> Tensor:
    """A mask with one look ahead."""
    keep = _tight(num_tokens, draw)
    query = draw.below(num_tokens - 1)
    keep[query, query + 1 + draw.below(num_tokens - 1 - query)] = True
    return keep


def _first_sees_next(num_tokens: int, draw: Draw) -> Tensor:
    keep = _tight(num_tokens, draw)
    keep[0, 1] = True  # unseen by who changes the last token only
    return keep


def _last_seen_early(num_tokens: int, draw: Draw) -> Tensor:
    keep = _tight(num_tokens, draw)
    keep[-2, -1] = True  # unseen by who changes one of the first
    return keep


def _leaks(draw: Draw) -> list[tuple]:
    fixed = [torch.ones_like, torch.tril, lambda ones: ones.tril(1)]  # no mask, a causal one, one token too many
    kinds = [lambda n, _, cut=cut: cut(torch.ones(n, n)).bool() for cut in fixed]
    kinds += [_first_sees_next, _last_seen_early, _leaky, _tight, _tight]
    kinds += [draw.pick((_tight, _tight, _leaky)) for _ in range(8)]
    calls = []
    for kind in draw.shuffled(kinds):
        batch, num_tokens, width = draw.sizes(3, 4, 9)
        # Near to each other, so that no weight is too small to be seen.
        x = draw.numbers(batch, num_tokens, width, spread=0.6)
        calls.append((Made(LOOKS, "looks_at", (kind(num_tokens, draw),)), x))
    return calls


def _without_gradient(draw: Draw) -> list[tuple]:
    states = [[USED] * 4, draw.shuffled([UNUSED, USED, USED, USED]), draw.shuffled([HUSHED, USED, USED, USED])]
    states += [draw.shuffled([UNUSED, HUSHED, USED, draw.pick([USED, UNUSED, HUSHED])]) for _ in range(3)]
    for called in (USED, USED, HUSHED):  # one at least is called: `backward` stops where no parameter took part
        states.append(draw.shuffled([called, *(draw.pick([USED, USED, UNUSED, HUSHED]) for _ in range(3))]))
    calls = []
    for how in draw.shuffled(states):
        batch, tokens, width = draw.sizes(3, 2, 8)
        names = [f"{draw.pick(['linear', 'projection', 'map', 'mix'])}_{at}" for at in draw.sizes(4, 0, 99)]
        taking_part = [form.format(name=name) for form, name in zip(how, names, strict=True)]
        source = PATIENT.format(**dict(zip(("q", "k", "v", "out"), taking_part, strict=True)))
        weights = [(name, draw.numbers(width, width, spread=width**-0.5)) for name in draw.shuffled(names)]
        calls.append((Made(source, "Patient", (weights,)), draw.numbers(batch, tokens, width)))
    return calls


def _to_split(draw: Draw) -> list[tuple]:
    calls = []
    for heads, head_dim, d_in in draw.size_rows(3, 3, 2, 7):
        d_out = heads * head_dim
        shapes = [*[(head_dim, d_in)] * (3 * heads), (d_out, d_out)]
        weights = [draw.numbers(*shape).float() for shape in shapes]
        calls.append((Made(WRAPPER, "wrapper", (d_in, d_out, heads, *weights)),))
    return calls


SOURCES: dict[str, Callable[[Draw], list[tuple]]] = {
    "leaks": _leaks,
    "without_gradient": _without_gradient,
    "to_split": _to_split,
}
