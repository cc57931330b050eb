"""Find the known mistake behind a wrong output."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from course_lib.wording import counted

from .cached_masks import wrong_caches
from .steps import Projections, Sizes
from .wrong_heads import EQUAL_HEADS, MERGES, OUTPUT, SHARED, SPLITS, other_head_counts
from .wrong_steps import KV_SCALE, MASKS, NO_MASK, OTHER_HEAD_DIM, ROLES, SCALES, SOFTMAX, WrongSteps


def known_mistakes(sizes: Sizes, causal: bool, has_out_proj: bool, steps: Sequence[int] = ()) -> Iterator[WrongSteps]:
    """Yield what may be wrong with attention of these sizes; steps are the numbers of tokens of the pieces of x."""
    yield from wrong_caches(steps)
    yield from SCALES
    if sizes.d_out // sizes.num_heads not in (0, sizes.head_dim):
        yield OTHER_HEAD_DIM
    if sizes.num_kv_heads > 1:
        yield KV_SCALE
    yield from ROLES
    yield from SOFTMAX
    yield from MASKS if causal else NO_MASK
    if sizes.num_heads > 1:
        yield from (*SPLITS, *MERGES, *EQUAL_HEADS)
    if sizes.num_kv_heads == sizes.num_heads > 1:
        width = sizes.num_heads * sizes.head_dim
        yield from other_head_counts(width, sizes.num_heads, lambda heads: counted(heads, "head"))
    if sizes.num_kv_heads < sizes.num_heads:
        yield from SHARED
    if has_out_proj:
        yield from OUTPUT


def find_mistake(
    projected: Sequence[Projections],
    result: Tensor,
    sizes: Sizes,
    causal: bool,
    has_out_proj: bool,
    steps: Sequence[int] = (),
) -> WrongSteps | None:
    """Find the mistake that gives a module's result in one of its likeliest layouts."""
    for known in known_mistakes(sizes, causal, has_out_proj, steps):
        for layout in projected:
            try:
                output = known.attention.output(layout, sizes, causal)
            except (RuntimeError, IndexError):  # the mistake is impossible for these sizes
                continue
            same = output.shape == result.shape
            if same and torch.allclose(output, result.to(output.dtype), rtol=1e-6, atol=1e-6, equal_nan=True):
                return known
    return None
