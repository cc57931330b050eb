"""Compute the least that any implementation of attention must read, write and calculate.

The operations are counted by formula and not by `torch.utils.flop_counter.FlopCounterMode`, because that counts the
pairs that a causal mask hides, which a kernel may skip, and counts zero for the fused kernel on a CPU. Where nothing is
hidden, a test holds both to the same count.
"""

from typing import TypedDict

from torch import Tensor

from course_lib.attention import GroupedQueryAttention, LlamaAttention, MultiHeadAttention, MultiQueryAttention


class Cost(TypedDict):
    """Bytes and floating-point operations, as a `Case` takes them."""

    bytes: int
    flops: int


def attention_cost(queries: Tensor, keys: Tensor, values: Tensor, *, causal: bool = False) -> Cost:
    """Compute the least that attention itself must read, write and calculate in one forward pass.

        bytes = queries, keys and values read once, context written once
        flops = 2 (head_dim + value width) for each pair of a query and a key that it may see, in each head

    Queries are (batch, head, query, head_dim), keys (batch, kv head, key, head_dim), values (batch, kv head, key, value
    width). With `causal` later keys are hidden. A multiplication and an addition are two operations.
    """
    batch, num_heads, query_len, head_dim = queries.shape
    key_len, value_dim = values.shape[2:]
    pairs = query_len * key_len - (query_len * (query_len - 1) // 2 if causal else 0)
    context_bytes = batch * num_heads * query_len * value_dim * queries.element_size()
    moved = queries.nbytes + keys.nbytes + values.nbytes + context_bytes
    return {"bytes": moved, "flops": 2 * batch * num_heads * pairs * (head_dim + value_dim)}


def module_cost(
    module: MultiHeadAttention | GroupedQueryAttention | MultiQueryAttention | LlamaAttention,
    x: Tensor,
    cached: int = 0,
) -> Cost:
    """Compute the least that a causal attention module without bias must read, write and calculate in a forward pass.

    The bytes are weights, x (batch, token, d_in), the cache of `cached` tokens and output, each once.
    """
    batch, num_tokens, _ = x.shape
    parameters = sum(parameter.numel() for parameter in module.parameters())
    cache = batch * cached * (module.k_proj.out_features + module.v_proj.out_features)
    d_out = module.num_heads * module.value_dim if module.out_proj is None else module.out_proj.out_features
    output = batch * num_tokens * d_out
    pairs = num_tokens * cached + num_tokens * (num_tokens + 1) // 2
    flops = 2 * batch * (num_tokens * parameters + module.num_heads * pairs * (module.head_dim + module.value_dim))
    return {"bytes": (parameters + x.numel() + cache + output) * x.element_size(), "flops": flops}
