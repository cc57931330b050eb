"""One decoding step of a module with its cache: what kv heads cost, and what sharing them saves."""

from collections.abc import Callable, Iterator

from torch import Tensor, nn

from course_lib.attention import GroupedQueryAttention, KVCache, MultiHeadAttention, MultiQueryAttention
from course_lib.attention.convert import multi_head_to_grouped_query, multi_query_to_multi_head
from course_lib.timing import Case, random_tensors
from tools.performance.costs import module_cost
from tools.performance.experiment import FORWARD, Experiment, prepare


def with_a_cache(device: str, quick: bool) -> Iterator[Experiment]:
    """Build the cases at 8 samples, 16 heads of 64, 4096 cached tokens, and 16, 4 or 1 kv heads with equal weights."""
    batch, num_heads, head_dim, cached = (2, 8, 8, 16) if quick else (8, 16, 64, 4096)
    width = num_heads * head_dim
    title = f"One decoding step with a cache: batch {batch}, {cached} tokens in it, {num_heads} heads of {head_dim}"
    sizes = {"batch": batch, "num_heads": num_heads, "head_dim": head_dim, "key_len": cached}
    for dtype in ("float32", "bfloat16"):
        (x,) = random_tensors(device, dtype, (batch, 1, width))
        keys, values = random_tensors(device, dtype, *[(batch, 1, cached, head_dim)] * 2)
        cases = []
        for name, num_kv_heads in (("MHA", num_heads), ("GQA", num_heads // 4), ("MQA", 1)):
            cache = KVCache(batch, num_kv_heads, cached + 1, head_dim, dtype=x.dtype, device=device)
            cache.append(*(each.expand(-1, num_kv_heads, -1, -1) for each in (keys, values)))
            for kernel in ("explicit", "fused"):
                shared = prepare(MultiQueryAttention(width, width, num_heads, kernel=kernel), device, dtype)
                module = with_kv_heads(shared, num_kv_heads)
                run = decoding_step(module, x, cache, cached)
                cost = module_cost(module, x, cached)
                cases.append(Case(f"{name}, {kernel}", run, cache_bytes=cache.nbytes, **cost))
        yield Experiment(title, dtype, cases, sizes, FORWARD, cold=not quick)


def with_kv_heads(
    shared: MultiQueryAttention, num_kv_heads: int
) -> MultiHeadAttention | GroupedQueryAttention | MultiQueryAttention:
    """Return the same function with more kv heads, each a copy of the only one."""
    if num_kv_heads == 1:
        return shared
    split = multi_query_to_multi_head(shared)
    if num_kv_heads == shared.num_heads:
        return split
    return multi_head_to_grouped_query(split, num_kv_heads)  # the mean of equal heads is that head


def decoding_step(module: nn.Module, x: Tensor, cache: KVCache, cached: int) -> Callable[[], Tensor]:
    """Append one token to the first tokens of the cache and attend to all of them; it can be called repeatedly."""

    def run() -> Tensor:
        cache.rewind(cached)
        return module(x, cache=cache)

    return run
