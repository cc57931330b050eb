"""What every form refuses, each in one sentence that names the argument, the value and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

import torch
from torch import Tensor, nn


def check_positive(**sizes: int) -> None:
    """Refuse a size that is not a whole number of at least 1."""
    check_at_least(1, **sizes)


def check_at_least(least: int, **sizes: int) -> None:
    """Refuse a size that is not a whole number of at least `least`."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral):
            raise TypeError(f"{name} must be a whole number, got {size!r} ({type(size).__name__}).")
        if size < least:
            raise ValueError(f"{name} must be at least {least}, got {size}.")


def check_even(head_dim: int) -> None:
    """Refuse a head whose numbers can't be paired."""
    if head_dim % 2:
        raise ValueError(
            f"head_dim must be even, got {head_dim}: rotary positions turn its numbers in pairs, so choose "
            f"head_dim={head_dim + 1}."
        )


def check_divisible(name: str, width: int, parts_name: str, parts: int, remedy: str = "") -> None:
    """Refuse a width that can't be cut into equal parts; the sentence names the nearest widths that can."""
    if width % parts:
        lower, upper = width // parts * parts, (width // parts + 1) * parts
        nearest = f"{lower} or {upper}" if lower else f"{upper}"
        raise ValueError(
            f"{name}={width} can't be cut into {parts_name}={parts} equal parts: choose {name}={nearest}{remedy}."
        )


def check_widths(d_out: int, num_heads: int, d_qk: int | None, d_v: int | None, out_proj: bool) -> tuple[int, int]:
    """Refuse widths that heads can't share evenly, and return the widths over all heads: (d_qk, d_v)."""
    widths = {"d_qk": d_qk, "d_v": d_v}
    missing = " and ".join(name for name, width in widths.items() if width is None)
    for name, width in widths.items():
        if width is None:
            check_divisible("d_out", d_out, "num_heads", num_heads, remedy=f", or give {missing}")
        else:
            check_positive(**{name: width})
            check_divisible(name, width, "num_heads", num_heads)
    d_qk, d_v = d_qk or d_out, d_v or d_out
    if not out_proj and d_v != d_out:
        raise ValueError(
            f"out_proj=False gives an output of width d_v={d_v}, not d_out={d_out}: choose d_out={d_v} or "
            "out_proj=True."
        )
    return d_qk, d_v


def check_dropout(dropout: float, name: str = "dropout") -> None:
    """Refuse a probability outside [0, 1)."""
    if isinstance(dropout, bool) or not isinstance(dropout, Real):
        raise TypeError(f"{name} must be a number, got {dropout!r} ({type(dropout).__name__}).")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"{name} must be at least 0 and less than 1, got {dropout}.")


def check_input(x: Tensor, projection: nn.Linear, name: str = "x", width_name: str = "d_in") -> None:
    """Refuse an input that the module's projection can't take; name is what forward calls it."""
    weight = projection.weight
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}: wrap it with torch.tensor({name}).")
    if x.dim() != 3:
        remedy = f"add the batch axis with {name}[None]" if x.dim() == 2 else "bring it to three axes"
        raise ValueError(f"{name} must be (batch, token, width), got the shape {tuple(x.shape)}: {remedy}.")
    if x.shape[-1] != projection.in_features:
        raise ValueError(
            f"{name} has the width {x.shape[-1]} (shape {tuple(x.shape)}), but the module was built with "
            f"{width_name}={projection.in_features}: build it with {width_name}={x.shape[-1]}, or check the order of "
            f"{name}'s axes."
        )
    if not x.is_floating_point():
        raise TypeError(
            f"{name} must be floating point, got {x.dtype}: embed the token ids first, or call {name}.float()."
        )
    if x.dtype != weight.dtype and not _autocasts(x.device):
        raise TypeError(
            f"{name} is {x.dtype}, but the module's weights are {weight.dtype}: call module.to({name}.dtype)."
        )
    if x.device != weight.device:
        raise ValueError(
            f"{name} is on {x.device}, but the module's weights are on {weight.device}: call "
            f"{name}.to({str(weight.device)!r})."
        )


def check_context(context: Tensor, x: Tensor, projection: nn.Linear, causal: bool, cache: object) -> None:
    """Refuse a context (what keys and values are made from, instead of x) that does not go with the rest."""
    check_input(context, projection, "context")
    if causal:
        raise ValueError(
            "context needs a module built with causal=False: a place in x says nothing about places in context; to "
            "hide some of them give keep."
        )
    if cache is not None:
        raise ValueError(
            "context and cache can't be given together: a cache grows with x; keys and values of a context stay."
        )
    if context.shape[0] != x.shape[0]:
        raise ValueError(
            f"context has {context.shape[0]} samples and x has {x.shape[0]}: there is one context for each sample."
        )


def check_heads(queries: Tensor, keys: Tensor, values: Tensor) -> None:
    """Refuse queries, keys and values that don't fit each other."""
    for name, tensor in (("queries", queries), ("keys", keys), ("values", values)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}.")
        if tensor.dim() != 4:
            raise ValueError(
                f"{name} must be (batch, head, token, head_dim), got the shape {tuple(tensor.shape)}: "
                "split the heads first with view and transpose(1, 2)."
            )
        if not tensor.is_floating_point():
            raise TypeError(f"{name} must be floating point, got {tensor.dtype}: call {name}.float().")
        if tensor.dtype != queries.dtype and not _autocasts(queries.device):
            raise TypeError(f"{name} are {tensor.dtype}, but queries are {queries.dtype}: bring them to one dtype.")
        if tensor.device != queries.device:
            raise ValueError(f"{name} are on {tensor.device}, but queries are on {queries.device}: move them.")
    if not queries.shape[0] == keys.shape[0] == values.shape[0]:
        raise ValueError(
            f"queries, keys and values differ in batch size ({queries.shape[0]}, {keys.shape[0]}, "
            f"{values.shape[0]}): axis 0 must be equal."
        )
    if keys.shape[1:3] != values.shape[1:3]:
        raise ValueError(
            f"keys {tuple(keys.shape)} and values {tuple(values.shape)} must agree in heads and tokens "
            "(axes 1 and 2): there is one value for each key."
        )
    if queries.shape[3] != keys.shape[3] or queries.shape[3] == 0:
        raise ValueError(
            f"queries have head_dim {queries.shape[3]} and keys {keys.shape[3]}: a score is their dot product, so "
            "both must be the same and at least 1."
        )
    if keys.shape[1] == 0 or queries.shape[1] == 0 or queries.shape[1] % keys.shape[1]:
        raise ValueError(
            f"{queries.shape[1]} query heads can't share {keys.shape[1]} key and value heads evenly: the number of "
            "query heads must be a multiple of it."
        )


def check_keep(keep: Tensor, shape: Sequence[int], device: torch.device) -> Tensor:
    """Refuse a mask that isn't bool, is elsewhere or doesn't broadcast to (batch, head, query, key); return it.

    A mask of three axes is read as (head, query, key), as broadcasting does; where it could as well be
    (batch, query, key), it is refused, because that slip goes unnoticed.
    """
    if not isinstance(keep, Tensor):
        raise TypeError(f"keep must be a bool tensor, got {type(keep).__name__}.")
    if keep.dtype != torch.bool:
        raise TypeError(
            f"keep must be bool with True = may attend, got {keep.dtype}: for a 0/1 mask in that sense use "
            "keep.bool(), for an additive mask (0 and -inf) use mask == 0."
        )
    if keep.device != device:
        raise ValueError(
            f"keep is on {keep.device}, but the tensors it masks are on {device}: call keep.to({str(device)!r})."
        )
    batch, num_heads = shape[:2]
    names = f"(batch, head, query, key) = {tuple(shape)}"
    if keep.dim() > 4:
        raise ValueError(f"keep has {keep.dim()} axes, shape {tuple(keep.shape)}: it must broadcast to {names}.")
    own_axes = shape[4 - keep.dim() :]  # the last axes of (batch, head, query, key)
    if any(size not in (1, full) for size, full in zip(keep.shape, own_axes)):  # noqa: B905 (torch 2.6 can't compile strict)
        raise ValueError(
            f"keep of shape {tuple(keep.shape)} does not broadcast to {names}{_mask_remedy(keep.shape, shape)}."
        )
    if keep.dim() == 3 and keep.shape[0] == batch == num_heads != 1:
        raise ValueError(
            f"keep of shape {tuple(keep.shape)} could be one mask a sample or one a head, since batch and heads are "
            f"both {batch}: write keep[:, None] for samples or keep[None] for heads."
        )
    return keep


def _autocasts(device: torch.device) -> bool:
    return device.type != "meta" and torch.is_autocast_enabled(device.type)  # "meta" knows no autocast and raises


def _mask_remedy(mask_shape: Sequence[int], shape: Sequence[int]) -> str:
    batch, _, query_len, key_len = shape
    if tuple(mask_shape) == (batch, key_len):
        return ": it looks like one row a sample, so write keep[:, None, None]"
    if tuple(mask_shape) in ((batch, query_len, key_len), (batch, 1, key_len)):
        return ": it looks like one mask a sample, so write keep[:, None]"
    if query_len != key_len and tuple(mask_shape[-2:]) == (key_len, query_len):
        return ": its last two axes look swapped, so write keep.transpose(-2, -1)"
    if query_len != key_len and mask_shape[-1] == query_len:
        return f": its last axis is for the {key_len} keys (with a cache, those in it too), not for the queries"
    return ""
