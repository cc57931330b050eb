"""How time and memory of the two kernels grow: with the number of tokens, and with the number of heads."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from course_lib.attention import MultiHeadAttention

from ..case import FORWARD, Case, Experiment, draw, module_cost, ready


def growth_with_tokens(device: str, quick: bool) -> Iterator[Experiment]:
    """One sample of 128 to 4096 tokens, width 768, 12 heads."""
    width, num_heads = (24, 3) if quick else (768, 12)
    for num_tokens in (8, 16) if quick else (128, 256, 512, 1024, 2048, 4096):
        yield both_kernels(device, num_tokens, width, num_heads)


def growth_with_heads(device: str, quick: bool) -> Iterator[Experiment]:
    """One sample of 1024 tokens, width 1024 cut into 1 to 32 heads."""
    num_tokens, width = (16, 64) if quick else (1024, 1024)
    for num_heads in (1, 4) if quick else (1, 2, 4, 8, 16, 32):
        yield both_kernels(device, num_tokens, width, num_heads)


def both_kernels(device: str, num_tokens: int, width: int, num_heads: int) -> Experiment:
    """Multi-head attention on one sample, with each kernel."""
    (x,) = draw(device, "float32", (1, num_tokens, width))
    modules: dict[str, nn.Module] = {}
    for kernel in ("explicit", "fused"):
        modules[kernel] = ready(MultiHeadAttention(width, width, num_heads, kernel=kernel), device, "float32")
    cost = module_cost(modules["fused"], x)
    one_of_scores = num_heads * num_tokens**2 * x.element_size()
    cases = [
        Case("explicit", lambda: modules["explicit"](x), needs=3 * one_of_scores, **cost),  # scores, masked, weights
        Case("fused", lambda: modules["fused"](x), **cost),
    ]
    sizes = {"batch": 1, "num_tokens": num_tokens, "d_out": width, "num_heads": num_heads}
    title = f"Multi-head attention: batch 1, {num_tokens} tokens, width {width}, {num_heads} heads"
    return Experiment(title, "float32", cases, sizes, FORWARD)
