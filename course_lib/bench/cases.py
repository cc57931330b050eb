"""What is timed: groups of functions that give the same numbers in different ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from course_lib.attention import MultiHeadAttention, attend, attend_fused, causal_keep, to_torch_mask
from course_lib.attention.convert import split_to_wrapper, to_torch
from course_lib.inputs import dream_big
from course_lib.pictures import layout_steps
from course_lib.recorder import record

Cases = dict[str, Callable[[], Tensor]]


class Group(NamedTuple):
    """Cases that belong into one table.

    Attributes:
        title: stands above the table.
        build: (device, quick) -> cases; quick asks for small sizes.
    """

    title: str
    build: Callable[[str, bool], Cases]


def broadcast_attention(queries: Tensor, keys: Tensor, values: Tensor, keep: Tensor | None = None) -> Tensor:
    """Multi-query attention as usually written: one kv head, broadcast by matmul, which copies it for every head."""
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.transpose(2, 3)  # bhqd, b1dk -> bhqk
    if keep is not None:
        scores = scores.masked_fill(~keep, -torch.inf)
    return scores.softmax(dim=-1) @ values


def multi_query_decode(device: str, quick: bool) -> Cases:
    """One new token of 8 samples, 32 query heads of 64, against 4096 cached keys and values."""
    key_len = 64 if quick else 4096
    queries, keys, values = _draw(device, (8, 32, 1, 64), (8, 1, key_len, 64), (8, 1, key_len, 64))
    return {
        "broadcast matmul": lambda: broadcast_attention(queries, keys, values),
        "attend": lambda: attend(queries, keys, values)[0],
        "attend_fused": lambda: attend_fused(queries, keys, values),
    }


def multi_query_prefill(device: str, quick: bool) -> Cases:
    """1024 tokens of one sample at once, 32 query heads of 64, causal."""
    num_tokens = 32 if quick else 1024
    queries, keys, values = _draw(device, (1, 32, num_tokens, 64), (1, 1, num_tokens, 64), (1, 1, num_tokens, 64))
    keep = causal_keep(num_tokens, device=device)
    return {
        "broadcast matmul": lambda: broadcast_attention(queries, keys, values, keep),
        "attend": lambda: attend(queries, keys, values, keep)[0],
        "attend_fused": lambda: attend_fused(queries, keys, values, keep),
    }


def multi_head_forms(device: str, quick: bool) -> Cases:
    """Multi-head attention of 12 heads on (8, 256, 768): the same weights in every form."""
    num_tokens = 16 if quick else 256
    (x,) = _draw(device, (8, num_tokens, 768))
    split = MultiHeadAttention(768, 768, num_heads=12).to(device).eval()
    fused = MultiHeadAttention(768, 768, num_heads=12, kernel="fused").to(device).eval()
    fused.load_state_dict(split.state_dict())
    wrapper = split_to_wrapper(split)
    torch_module: nn.MultiheadAttention = to_torch(split)
    mask = to_torch_mask(causal_keep(num_tokens, device=device))
    return {
        "wrapper of heads": lambda: wrapper(x),
        "weight split": lambda: split(x),
        "weight split, fused": lambda: fused(x),
        "nn.MultiheadAttention, with weights": lambda: torch_module(x, x, x, attn_mask=mask)[0],
        "nn.MultiheadAttention, without": lambda: torch_module(x, x, x, attn_mask=mask, need_weights=False)[0],
    }


def recording(device: str, quick: bool) -> Cases:
    """What it costs to watch: the toy module alone, recorded, recorded with its steps asked for, and drawn."""
    x = dream_big(device=device).batch
    module = MultiHeadAttention(3, 4, num_heads=2).to(device)

    def asked() -> Tensor:
        watched = record(module, x)
        _ = watched.steps
        return watched.output

    def drawn() -> Tensor:
        watched = record(module, x)
        layout_steps(watched, of="queries_by_head")
        return watched.output

    return {
        "the module alone": lambda: module(x),
        "recorded": lambda: record(module, x).output,
        "recorded, its steps asked for": asked,
        "recorded and drawn, two steps": drawn,
    }


def _draw(device: str, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(device) for shape in shapes]


GROUPS = (
    Group("One decoding step of multi-query attention: 8 samples, 32 heads of 64, 4096 keys", multi_query_decode),
    Group("Prefill of multi-query attention: 1 sample, 32 heads of 64, 1024 tokens", multi_query_prefill),
    Group("Multi-head attention: 8 samples, 256 tokens, width 768, 12 heads", multi_head_forms),
    Group("The recorder on the toy module: 1 sample, 6 tokens, 2 heads of 2", recording),
)
