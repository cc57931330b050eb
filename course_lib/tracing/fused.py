"""Run fused attention as single operations, so that a trace sees its scores and weights."""

from __future__ import annotations

from typing import Any

import torch

from .torch_private import dense_flex_attention, operation_name, sdpa_in_single_operations, signature_of


def is_fused_attention(operation: Any) -> bool:
    """Return whether an operation is a kernel of scaled_dot_product_attention, or flex_attention."""
    return operation_name(operation).startswith("_scaled_dot_product_") or operation_name(operation) == "flex_attention"


def unfused_attention(operation: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Compute in single operations what a fused kernel does; of its results, only the first is meant to be used."""
    if operation_name(operation) == "flex_attention":
        return dense_flex_attention(*args, **kwargs)
    names, num_results = signature_of(operation)
    given = dict(zip(names, args, strict=False)) | kwargs
    output = sdpa_in_single_operations(
        given["query"],
        given["key"],
        given["value"],
        given.get("attn_mask", given.get("attn_bias")),
        given.get("dropout_p", 0.0),
        given.get("is_causal", False),
        scale=given.get("scale"),
    )[0]
    return (output, *(torch.zeros(()) for _ in range(num_results - 1)))
