"""Llama's attention: the course's, and that of the package transformers with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from course_lib.attention import KVCache, LlamaAttention, causal_keep

from ..case import BACKWARD, FORWARD, Case, Experiment, all_of, draw, module_cost, ready
from .cache import decoding_step

EXPLICIT, FUSED, THEIRS_EAGER, THEIRS_SDPA = "explicit", "fused", "transformers, eager", "transformers, sdpa"
MISSING = "The rows of transformers need the package: pip install transformers."


def llama_forms(device: str, quick: bool) -> Iterator[Experiment]:
    """Prefill, training and decoding: width 1024, 16 heads of 64, 4 heads of keys and values."""
    batch, num_tokens, d_model, num_heads, num_kv_heads = (2, 16, 64, 8, 2) if quick else (2, 512, 1024, 16, 4)
    cached = 32 if quick else 2048
    shape = {"d_model": d_model, "num_heads": num_heads, "num_kv_heads": num_kv_heads}
    for dtype in ("float32", "bfloat16"):
        modules = build_modules(d_model, num_heads, num_kv_heads, max(num_tokens, cached + 1), device, dtype)
        left_out = [] if THEIRS_SDPA in modules else [MISSING]
        heads = f"width {d_model}, {num_heads} heads, {num_kv_heads} kv heads"

        (x,) = draw(device, dtype, (batch, num_tokens, d_model))
        title = f"Llama's attention, prefill: batch {batch}, {num_tokens} tokens, {heads}"
        sizes = {"batch": batch, "num_tokens": num_tokens, **shape}
        cases = all_of(prefill_cases(modules, x.requires_grad_()), **module_cost(modules[EXPLICIT], x))
        yield Experiment(title, dtype, cases, sizes, FORWARD, left_out)
        yield Experiment(title, dtype, cases, sizes, BACKWARD, left_out)

        batch_now = 1 if quick else 8
        head_dim = d_model // num_heads
        (new,) = draw(device, dtype, (batch_now, 1, d_model))
        keys, values = draw(device, dtype, *[(batch_now, num_kv_heads, cached, head_dim)] * 2)
        title = f"Llama's attention, one decoding step: batch {batch_now}, {cached} tokens in the cache, {heads}"
        sizes = {"batch": batch_now, "num_tokens": 1, "key_len": cached, **shape}
        cost = module_cost(modules[EXPLICIT], new, cached)
        cases = all_of(decode_cases(modules, new, keys, values), cache_bytes=keys.nbytes + values.nbytes, **cost)
        note = [] if left_out else ["transformers' DynamicCache copies all keys and values at each step; KVCache none."]
        yield Experiment(title, dtype, cases, sizes, FORWARD, left_out + note, cold=not quick)


def build_modules(
    d_model: int, num_heads: int, num_kv_heads: int, max_positions: int, device: str, dtype: str
) -> dict[str, torch.nn.Module]:
    """By name; those of transformers only where it is installed."""
    modules = {}
    for name, theirs, kernel in ((EXPLICIT, THEIRS_EAGER, "explicit"), (FUSED, THEIRS_SDPA, "fused")):
        own = LlamaAttention(d_model, num_heads, num_kv_heads=num_kv_heads, max_positions=max_positions, kernel=kernel)
        modules[name] = ready(own, device, dtype)
        try:
            modules[theirs] = modules[name].to_transformers()
        except ImportError:
            continue
    return dict(sorted(modules.items(), key=lambda item: item[0].startswith("transformers")))


def prefill_cases(modules: dict[str, torch.nn.Module], x: Tensor) -> list[Case]:
    """All tokens at once."""
    num_tokens = x.shape[1]
    positions = torch.arange(num_tokens, device=x.device)
    earlier = causal_keep(num_tokens, device=x.device)[None, None]  # (1, 1, q, k)
    added = torch.zeros(earlier.shape, device=x.device, dtype=x.dtype).masked_fill(~earlier, torch.finfo(x.dtype).min)
    cases = []
    for name, module in modules.items():
        leaves = (x, *module.parameters())
        if name in (EXPLICIT, FUSED):
            cases.append(Case(name, lambda module=module: module(x), leaves))
        else:
            mask = added if name == THEIRS_EAGER else None  # without a mask their sdpa is causal by itself
            cases.append(Case(name, call_theirs(module, x, positions, mask), leaves))
    return cases


def decode_cases(modules: dict[str, torch.nn.Module], x: Tensor, keys: Tensor, values: Tensor) -> list[Case]:
    """One token more, on top of keys and values that are there."""
    batch, num_kv_heads, cached, head_dim = keys.shape
    positions = torch.tensor([cached], device=x.device)
    cases = []
    for name, module in modules.items():
        if name in (EXPLICIT, FUSED):
            cache = KVCache(batch, num_kv_heads, cached + 1, head_dim, dtype=x.dtype, device=x.device)
            cache.append(keys, values)
            cases.append(Case(name, decoding_step(module, x, cache, cached)))
        else:
            cases.append(Case(name, call_theirs(module, x, positions, None, (keys, values))))
    return cases


def call_theirs(
    module: torch.nn.Module,
    x: Tensor,
    positions: Tensor,
    mask: Tensor | None,
    cached: tuple[Tensor, Tensor] | None = None,
) -> Callable[[], Tensor]:
    """Run a module of transformers as its model does, on top of cached keys and values if there are any."""
    from transformers import DynamicCache
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    angles = LlamaRotaryEmbedding(module.config).to(x.device)(x, positions[None])  # once for all layers of a model

    def run() -> Tensor:
        cache = None
        if cached is not None:
            cache = DynamicCache()
            cache.update(*(each[:, :, :0] for each in cached), 0)
            cache.layers[0].keys, cache.layers[0].values = cached
        return module(x, position_embeddings=angles, attention_mask=mask, past_key_values=cache)[0]

    return run
