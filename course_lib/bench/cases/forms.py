"""Multi-head attention in every form, with the same weights, at sizes of the course's sources."""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import MultiHeadAttention, MultiHeadAttentionWrapper, causal_keep, to_torch_mask
from course_lib.attention.convert import split_to_wrapper, to_torch

from ..case import BACKWARD, FORWARD, Case, Experiment, all_of, draw, module_cost, ready

WRAPPER, EXPLICIT, FUSED, FLOOR = "wrapper", "weight split, explicit", "weight split, fused", "linears + SDPA"
TORCH, TORCH_FUSED = "nn.MultiheadAttention", "nn.MultiheadAttention, no weights"

# batch, tokens, d_in, d_qk, d_v, d_out, heads
SIZES = ((8, 256, 768, 768, 768, 768, 12), (8, 1024, 768, 768, 768, 768, 12), (24, 100, 1024, 512, 888, 2048, 8))
SMALL = ((2, 10, 24, 24, 24, 24, 3), (2, 40, 24, 24, 24, 24, 3), (3, 7, 20, 8, 12, 16, 4))


def multi_head_forms(device: str, quick: bool) -> Iterator[Experiment]:
    """Sources 1 and 0 at their own sizes, and source 1 with more tokens."""
    for dtype in ("float32", "bfloat16"):
        for batch, num_tokens, d_in, d_qk, d_v, d_out, num_heads in SMALL if quick else SIZES:
            batch = 1 if device == "cpu" and dtype == "bfloat16" else batch  # most processors are slow at it
            (x,) = draw(device, dtype, (batch, num_tokens, d_in))
            split = ready(MultiHeadAttention(d_in, d_out, num_heads, d_qk=d_qk, d_v=d_v), device, dtype)
            cases, left_out = build_forms(split, x.requires_grad_())
            widths = str(d_in) if d_in == d_out == d_qk == d_v else f"{d_in} -> {d_qk}, values {d_v} -> {d_out}"
            title = f"Multi-head attention: batch {batch}, {num_tokens} tokens, width {widths}, {num_heads} heads"
            sizes = {"batch": batch, "num_tokens": num_tokens, "d_in": d_in, "d_out": d_out, "num_heads": num_heads}
            cases = all_of(cases, **module_cost(split, x))
            yield Experiment(title, dtype, cases, sizes, FORWARD, left_out)
            yield Experiment(title, dtype, cases, sizes, BACKWARD, left_out)


def build_forms(split: MultiHeadAttention, x: Tensor) -> tuple[list[Case], list[str]]:
    """The forms that can hold the weights of a module, and a sentence on those that can't."""
    fused = MultiHeadAttention(
        split.q_proj.in_features,
        split.out_proj.out_features,
        split.num_heads,
        d_qk=split.q_proj.out_features,
        d_v=split.v_proj.out_features,
        kernel="fused",
    ).to(x)
    fused.load_state_dict(split.state_dict())
    ours = [
        Case(EXPLICIT, lambda: split(x), (x, *split.parameters())),
        Case(FUSED, lambda: fused(x), (x, *fused.parameters())),
        Case(FLOOR, lambda: linears_and_sdpa(split, x), (x, *split.parameters())),
    ]
    widths = {split.q_proj.in_features, *(each.out_features for each in split.children())}
    if len(widths) > 1:
        return ours, ["The wrapper and nn.MultiheadAttention hold one width for everything, so they have no row."]
    wrapper, module = split_to_wrapper(split), to_torch(split)
    hidden = to_torch_mask(causal_keep(x.shape[1], device=x.device))
    torch_leaves = (x, *module.parameters())  # q, k and v are one matrix there, stacked
    return [
        Case(WRAPPER, lambda: wrapper(x), wrapper_leaves(wrapper, x)),
        *ours,
        Case(TORCH, lambda: module(x, x, x, attn_mask=hidden)[0], torch_leaves),
        Case(
            TORCH_FUSED,
            lambda: module(x, x, x, attn_mask=hidden, is_causal=True, need_weights=False)[0],
            torch_leaves,
        ),
    ], []


def linears_and_sdpa(split: MultiHeadAttention, x: Tensor) -> Tensor:
    """The floor: what nobody can do without, four products and PyTorch's fused kernel."""
    batch, num_tokens, _ = x.shape
    queries, keys, values = (
        projection(x).view(batch, num_tokens, split.num_heads, -1).transpose(1, 2)  # (b, t, m) -> (b, h, t, d)
        for projection in (split.q_proj, split.k_proj, split.v_proj)
    )
    context = F.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return split.out_proj(context.transpose(1, 2).reshape(batch, num_tokens, -1))  # (b, h, t, d) -> (b, t, m)


def wrapper_leaves(wrapper: MultiHeadAttentionWrapper, x: Tensor) -> tuple[Tensor, ...]:
    """x and the weights in the order of the split's: all heads' queries, keys, values, then the output's."""
    names = ("q_proj", "k_proj", "v_proj")
    by_head: list[nn.Linear] = [getattr(head, name) for name in names for head in wrapper.heads]
    return (x, *(each.weight for each in by_head), wrapper.out_proj.weight)
