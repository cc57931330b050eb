"""How the time and memory of the two kernels grow with the number of tokens and with the number of heads."""

from collections.abc import Iterator
from functools import partial

from course_lib.attention import MultiHeadAttention
from course_lib.timing import Case, random_tensors
from tools.performance.costs import module_cost
from tools.performance.experiment import FORWARD, Experiment, with_both_kernels


def growth_with_tokens(device: str, quick: bool) -> Iterator[Experiment]:
    """Build the cases for one sample of 128 to 4096 tokens, width 768, 12 heads."""
    width, num_heads = (24, 3) if quick else (768, 12)
    for num_tokens in (8, 16) if quick else (128, 256, 512, 1024, 2048, 4096):
        yield both_kernels(device, num_tokens, width, num_heads)


def growth_with_heads(device: str, quick: bool) -> Iterator[Experiment]:
    """Build the cases for one sample of 1024 tokens, width 1024 divided into 1 to 32 heads."""
    num_tokens, width = (16, 64) if quick else (1024, 1024)
    for num_heads in (1, 4) if quick else (1, 2, 4, 8, 16, 32):
        yield both_kernels(device, num_tokens, width, num_heads)


def both_kernels(device: str, num_tokens: int, width: int, num_heads: int) -> Experiment:
    """Build multi-head attention on one sample with each kernel."""
    (x,) = random_tensors(device, "float32", (1, num_tokens, width))
    build = partial(MultiHeadAttention, width, width, num_heads)
    explicit, fused = with_both_kernels(build, device, "float32")
    cost = module_cost(fused, x)
    scores_bytes = num_heads * num_tokens**2 * x.element_size()
    cases = [
        Case("explicit", lambda: explicit(x), required_bytes=3 * scores_bytes, **cost),  # scores, masked, weights
        Case("fused", lambda: fused(x), **cost),
    ]
    sizes = {"batch": 1, "num_tokens": num_tokens, "d_out": width, "num_heads": num_heads}
    title = f"Multi-head attention: batch 1, {num_tokens} tokens, width {width}, {num_heads} heads"
    return Experiment(title, "float32", cases, sizes, FORWARD)
