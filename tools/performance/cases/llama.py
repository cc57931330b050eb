"""The course's Llama attention, compared with that of the package transformers, with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from course_lib.attention import KVCache, LlamaAttention, causal_keep
from course_lib.timing import Case, random_tensors
from tools.performance.costs import module_cost
from tools.performance.experiment import BACKWARD, FORWARD, Experiment, with_both_kernels, with_fields

from .cache import decoding_step

if TYPE_CHECKING:
    from transformers.models.llama.modeling_llama import LlamaAttention as TheirAttention

EXPLICIT, FUSED, THEIRS_EAGER, THEIRS_SDPA = "explicit", "fused", "transformers, eager", "transformers, sdpa"
MISSING = "The rows of transformers need the package: pip install transformers."


def llama_forms(device: str, quick: bool) -> Iterator[Experiment]:
    """Build prefill, training and decoding at width 1024, with 16 heads of 64 and 4 kv heads."""
    batch, num_tokens, d_model, num_heads, num_kv_heads = (2, 16, 64, 8, 2) if quick else (2, 512, 1024, 16, 4)
    batch_now, cached = (1, 32) if quick else (8, 2048)
    shape = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
    for dtype in ("float32", "bfloat16"):
        ours = build_modules(d_model, num_heads, num_kv_heads, max(num_tokens, cached + 1), device, dtype)
        theirs = convert_modules(ours)
        left_out = [] if theirs else [MISSING]
        heads = f"width {d_model}, {num_heads} heads, {num_kv_heads} kv heads"

        (x,) = random_tensors(device, dtype, (batch, num_tokens, d_model))
        title = f"Llama's attention, prefill: batch {batch}, {num_tokens} tokens, {heads}"
        sizes = {"batch": batch, "num_tokens": num_tokens, **shape}
        cases = with_fields(prefill_cases(ours, theirs, x.requires_grad_()), **module_cost(ours[EXPLICIT], x))
        yield Experiment(title, dtype, cases, sizes, FORWARD, left_out)
        yield Experiment(title, dtype, cases, sizes, BACKWARD, left_out)

        (new,) = random_tensors(device, dtype, (batch_now, 1, d_model))
        keys, values = random_tensors(device, dtype, *[(batch_now, num_kv_heads, cached, d_model // num_heads)] * 2)
        title = f"Llama's attention, one decoding step: batch {batch_now}, {cached} tokens in the cache, {heads}"
        sizes = {"batch": batch_now, "num_tokens": 1, "key_len": cached, **shape}
        cost = {"cache_bytes": keys.nbytes + values.nbytes, **module_cost(ours[EXPLICIT], new, cached)}
        cases = with_fields(decode_cases(ours, theirs, new, keys, values), **cost)
        note = [] if left_out else ["transformers' DynamicCache copies all keys and values at each step; KVCache none."]
        yield Experiment(title, dtype, cases, sizes, FORWARD, left_out + note, cold=not quick)


def build_modules(
    d_model: int, num_heads: int, num_kv_heads: int, max_positions: int, device: str, dtype: str
) -> dict[str, LlamaAttention]:
    sizes = {"num_kv_heads": num_kv_heads, "max_positions": max_positions}
    build = partial(LlamaAttention, d_model, num_heads, **sizes)
    return dict(zip((EXPLICIT, FUSED), with_both_kernels(build, device, dtype), strict=True))


def convert_modules(ours: dict[str, LlamaAttention]) -> dict[str, TheirAttention]:
    """Convert to modules of transformers with the same weights; empty if the package is not installed."""
    try:
        return {THEIRS_EAGER: ours[EXPLICIT].to_transformers(), THEIRS_SDPA: ours[FUSED].to_transformers()}
    except ImportError:
        return {}


def prefill_cases(ours: dict[str, LlamaAttention], theirs: dict[str, TheirAttention], x: Tensor) -> list[Case]:
    """Build the cases in which all tokens are computed at once."""
    num_tokens = x.shape[1]
    positions = torch.arange(num_tokens, device=x.device)
    earlier = causal_keep(num_tokens, device=x.device)[None, None]  # (1, 1, q, k)
    added = torch.zeros(earlier.shape, device=x.device, dtype=x.dtype).masked_fill(~earlier, torch.finfo(x.dtype).min)
    cases = [Case(name, lambda module=module: module(x), (x, *module.parameters())) for name, module in ours.items()]
    for name, module in theirs.items():
        mask = added if name == THEIRS_EAGER else None  # without a mask their sdpa is causal by itself
        cases.append(Case(name, call_theirs(module, x, positions, mask), (x, *module.parameters())))
    return cases


def decode_cases(
    ours: dict[str, LlamaAttention], theirs: dict[str, TheirAttention], x: Tensor, keys: Tensor, values: Tensor
) -> list[Case]:
    """Build the cases that compute one more token after keys and values in the cache."""
    batch, num_kv_heads, cached, head_dim = keys.shape
    positions = torch.tensor([cached], device=x.device)
    cases = []
    for name, module in ours.items():
        cache = KVCache(batch, num_kv_heads, cached + 1, head_dim, dtype=x.dtype, device=x.device)
        cache.append(keys, values)
        cases.append(Case(name, decoding_step(module, x, cache, cached)))
    for name, module in theirs.items():
        cases.append(Case(name, call_theirs(module, x, positions, None, (keys, values))))
    return cases


def call_theirs(
    module: TheirAttention, x: Tensor, positions: Tensor, mask: Tensor | None, cached: tuple[Tensor, ...] = ()
) -> Callable[[], Tensor]:
    """Run a module of transformers as its model does, with cached keys and values if there are any."""
    from transformers import DynamicCache
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    angles = LlamaRotaryEmbedding(module.config).to(x.device)(x, positions[None])  # once for all layers of a model

    def run() -> Tensor:
        cache = None
        if cached:
            keys, values = cached
            cache = DynamicCache()
            cache.update(keys[:, :, :0], values[:, :, :0], 0)
            vars(cache.layers[0]).update(keys=keys, values=values)  # in place of a copy
        return module(x, position_embeddings=angles, attention_mask=mask, past_key_values=cache)[0]

    return run
