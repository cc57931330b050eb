"""Multi-head attention in every form, with the same weights, at sizes of the course's sources."""

from collections.abc import Iterator
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.attention import (
    MultiHeadAttention,
    MultiHeadAttentionWrapper,
    MultiQueryAttention,
    causal_keep,
    to_torch_mask,
)
from course_lib.attention.convert import split_to_wrapper, to_torch
from course_lib.timing import Case, random_tensors
from tools.performance.costs import module_cost
from tools.performance.experiment import BACKWARD, FORWARD, Experiment, with_both_kernels, with_fields

WRAPPER, EXPLICIT, FUSED, FLOOR = "wrapper", "weight split, explicit", "weight split, fused", "linears + SDPA"
TORCH, TORCH_FUSED = "nn.MultiheadAttention", "nn.MultiheadAttention, no weights"

# batch, tokens, d_in, d_qk, d_v, d_out, heads
SIZES = ((8, 256, 768, 768, 768, 768, 12), (8, 1024, 768, 768, 768, 768, 12), (24, 100, 1024, 512, 888, 2048, 8))
SMALL = ((2, 10, 24, 24, 24, 24, 3), (2, 40, 24, 24, 24, 24, 3), (3, 7, 20, 8, 12, 16, 4))


def multi_head_forms(device: str, quick: bool) -> Iterator[Experiment]:
    """Build the cases at the sizes of sources 1 and 0, and of source 1 with more tokens."""
    for dtype in ("float32", "bfloat16"):
        for batch, num_tokens, d_in, d_qk, d_v, d_out, num_heads in SMALL if quick else SIZES:
            batch = 1 if device == "cpu" and dtype == "bfloat16" else batch  # because most processors are slow at it
            (x,) = random_tensors(device, dtype, (batch, num_tokens, d_in))
            build = partial(MultiHeadAttention, d_in, d_out, num_heads, d_qk=d_qk, d_v=d_v)
            split, fused = with_both_kernels(build, device, dtype)
            cases, left_out = build_forms(split, fused, x.requires_grad_())
            widths = str(d_in) if d_in == d_out == d_qk == d_v else f"{d_in} -> {d_qk}, values {d_v} -> {d_out}"
            title = f"Multi-head attention: batch {batch}, {num_tokens} tokens, width {widths}, {num_heads} heads"
            sizes = {"batch": batch, "num_tokens": num_tokens, "d_in": d_in, "d_out": d_out, "num_heads": num_heads}
            cases = with_fields(cases, **module_cost(split, x))
            yield Experiment(title, dtype, cases, sizes, FORWARD, left_out)
            yield Experiment(title, dtype, cases, sizes, BACKWARD, left_out)


def build_forms(split: MultiHeadAttention, fused: MultiHeadAttention, x: Tensor) -> tuple[list[Case], list[str]]:
    """Build the forms that can hold a module's weights; add a sentence on those that cannot."""
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
    leaves = (x, *module.parameters())  # q, k and v are one matrix there, stacked
    torch_case = Case(TORCH, lambda: module(x, x, x, attn_mask=hidden)[0], leaves)
    run_fused = partial(module, x, x, x, attn_mask=hidden, is_causal=True, need_weights=False)
    fast = Case(TORCH_FUSED, lambda: run_fused()[0], leaves)
    return [Case(WRAPPER, lambda: wrapper(x), wrapper_leaves(wrapper, x)), *ours, torch_case, fast], []


def linears_and_sdpa(module: MultiHeadAttention | MultiQueryAttention, x: Tensor) -> Tensor:
    """Compute the floor: the four products that every form needs, and PyTorch's fused kernel."""
    shared = module.num_kv_heads != module.num_heads
    context = F.scaled_dot_product_attention(*project(module, x), is_causal=True, enable_gqa=shared)
    return merge(module, context)


def project(module: MultiHeadAttention | MultiQueryAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Project x to the queries of each head and to the keys and values of each kv head."""
    heads = module.num_heads, module.num_kv_heads, module.num_kv_heads
    projected = module.q_proj(x), module.k_proj(x), module.v_proj(x)
    queries, keys, values = (
        each.unflatten(-1, (num_heads, -1)).transpose(1, 2)  # (b, t, m) -> (b, h, t, d)
        for each, num_heads in zip(projected, heads, strict=True)
    )
    return queries, keys, values


def merge(module: MultiHeadAttention | MultiQueryAttention, context: Tensor) -> Tensor:
    """Concatenate the heads and apply the output projection."""
    merged = context.transpose(1, 2).flatten(2)  # (b, h, t, d) -> (b, t, h * d)
    return module.get_submodule("out_proj")(merged)


def wrapper_leaves(wrapper: MultiHeadAttentionWrapper, x: Tensor) -> tuple[Tensor, ...]:
    """Return x and the weights in the weight split's order: all heads' queries, keys, values, then the output's."""
    names = ("q_proj", "k_proj", "v_proj")
    by_head: list[nn.Linear] = [getattr(head, name) for name in names for head in wrapper.heads]
    return (x, *(each.weight for each in by_head), wrapper.get_parameter("out_proj.weight"))
