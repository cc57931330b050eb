"""Multi-query attention as modules, at the size of source 2: what sharing keys and values is worth in a whole layer."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor

from course_lib.attention import MultiQueryAttention, causal_keep
from course_lib.attention.convert import multi_query_to_multi_head

from ..case import BACKWARD, FORWARD, Case, Experiment, all_of, draw, module_cost, ready
from .shared_heads import broadcast_attention

BROADCAST, EXPLICIT, FUSED, FLOOR = "broadcast", "MQA, explicit", "MQA, fused", "linears + SDPA, enable_gqa"
OWN_HEADS = "MHA with copies, explicit"
NO_GRADIENTS = "Copies of shared weights have gradients of their own, so MHA has no row."


def multi_query_modules(device: str, quick: bool) -> Iterator[Experiment]:
    """8 heads: queries 512 -> 128, keys and values one head of 16, the merged heads -> 64."""
    batch, num_tokens, d_in, d_inner, d_out, num_heads = (2, 12, 64, 32, 16, 4) if quick else (10, 100, 512, 128, 64, 8)
    title = f"Multi-query attention: batch {batch}, {num_tokens} tokens, width {d_in} -> {d_inner} -> {d_out}, "
    title += f"{num_heads} heads"
    sizes = {"batch": batch, "num_tokens": num_tokens, "d_in": d_in, "d_out": d_out, "num_heads": num_heads}
    for dtype in ("float32", "bfloat16"):
        (x,) = draw(device, dtype, (batch, num_tokens, d_in))
        explicit, fused = (
            ready(MultiQueryAttention(d_in, d_out, num_heads, d_qk=d_inner, d_v=d_inner, kernel=kernel), device, dtype)
            for kernel in ("explicit", "fused")
        )
        cases = all_of(build_modules(explicit, fused, x.requires_grad_()), **module_cost(explicit, x))
        yield Experiment(title, dtype, cases, sizes, FORWARD)
        shared = [case for case in cases if case.name != OWN_HEADS]
        yield Experiment(title, dtype, shared, sizes, BACKWARD, [NO_GRADIENTS])


def build_modules(explicit: MultiQueryAttention, fused: MultiQueryAttention, x: Tensor) -> list[Case]:
    """The same layer in five ways."""
    every_head_its_own = multi_query_to_multi_head(explicit)
    keep = causal_keep(x.shape[1], device=x.device)
    leaves = (x, *explicit.parameters())
    return [
        Case(BROADCAST, lambda: as_usually_written(explicit, x, keep), leaves),
        Case(EXPLICIT, lambda: explicit(x), leaves),
        Case(FUSED, lambda: fused(x), (x, *fused.parameters())),
        Case(FLOOR, lambda: linears_and_sdpa(explicit, x), leaves),
        Case(OWN_HEADS, lambda: every_head_its_own(x)),
    ]


def as_usually_written(module: MultiQueryAttention, x: Tensor, keep: Tensor) -> Tensor:
    """With broadcasting, as source 2 does it."""
    return merge(module, broadcast_attention(*project(module, x), keep))


def linears_and_sdpa(module: MultiQueryAttention, x: Tensor) -> Tensor:
    """The projections and PyTorch's fused kernel, which shares the keys and values by itself."""
    return merge(module, F.scaled_dot_product_attention(*project(module, x), is_causal=True, enable_gqa=True))


def project(module: MultiQueryAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries by head, and one head of keys and values."""
    queries = module.q_proj(x).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)  # (b, t, m) -> (b, h, t, d)
    return queries, module.k_proj(x)[:, None], module.v_proj(x)[:, None]  # (b, t, m) -> (b, 1, t, d)


def merge(module: MultiQueryAttention, context: Tensor) -> Tensor:
    """The heads side by side, mixed by the output projection."""
    return module.out_proj(context.transpose(1, 2).flatten(2))  # (b, h, t, d) -> (b, t, h * d) -> (b, t, d_out)
