"""Multi-query attention as modules at the size of source 2: what sharing keys and values saves in a whole layer."""

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from course_lib.attention import MultiQueryAttention, causal_keep
from course_lib.attention.convert import multi_query_to_multi_head
from course_lib.timing import Case, broadcast_attention, random_tensors
from tools.performance.costs import module_cost
from tools.performance.experiment import BACKWARD, FORWARD, Experiment, with_both_kernels, with_fields

from .forms import linears_and_sdpa, merge, project

BROADCAST, EXPLICIT, FUSED, FLOOR = "broadcast", "MQA, explicit", "MQA, fused", "linears + SDPA, enable_gqa"
MULTI_HEAD = "MHA with copies, explicit"
NO_GRADIENTS = "Copies of shared weights have gradients of their own, so MHA has no row."


def multi_query_modules(device: str, quick: bool) -> Iterator[Experiment]:
    """Build the cases with 8 heads: queries 512 -> 128, keys and values one head of 16, the merged heads -> 64."""
    batch, num_tokens, d_in, d_inner, d_out, num_heads = (2, 12, 64, 32, 16, 4) if quick else (10, 100, 512, 128, 64, 8)
    widths = f"{d_in} -> {d_inner} -> {d_out}"
    title = f"Multi-query attention: batch {batch}, {num_tokens} tokens, width {widths}, {num_heads} heads"
    sizes = {"batch": batch, "num_tokens": num_tokens, "d_in": d_in, "d_out": d_out, "num_heads": num_heads}
    for dtype in ("float32", "bfloat16"):
        (x,) = random_tensors(device, dtype, (batch, num_tokens, d_in))
        build = partial(MultiQueryAttention, d_in, d_out, num_heads, d_qk=d_inner, d_v=d_inner)
        explicit, fused = with_both_kernels(build, device, dtype)
        cases = with_fields(build_modules(explicit, fused, x.requires_grad_()), **module_cost(explicit, x))
        yield Experiment(title, dtype, cases, sizes, FORWARD)
        shared = [case for case in cases if case.name != MULTI_HEAD]
        yield Experiment(title, dtype, shared, sizes, BACKWARD, [NO_GRADIENTS])


def build_modules(explicit: MultiQueryAttention, fused: MultiQueryAttention, x: Tensor) -> list[Case]:
    """Build the same layer in five ways."""
    multi_head = multi_query_to_multi_head(explicit)
    keep = causal_keep(x.shape[1], device=x.device)
    leaves = (x, *explicit.parameters())
    return [
        # With broadcasting, as source 2 does.
        Case(BROADCAST, lambda: merge(explicit, broadcast_attention(*project(explicit, x), keep)), leaves),
        Case(EXPLICIT, lambda: explicit(x), leaves),
        Case(FUSED, lambda: fused(x), (x, *fused.parameters())),
        Case(FLOOR, lambda: linears_and_sdpa(explicit, x), leaves),
        Case(MULTI_HEAD, lambda: multi_head(x)),
    ]
