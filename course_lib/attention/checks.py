"""Checks of arguments: each refuses in one sentence that names the argument, the value and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

import torch
from torch import Tensor, nn


def check_positive(**sizes: int) -> None:
    """Refuse a size that is not an integer of at least 1.

    Args:
        sizes: each by the name that the message gives it.

    Raises:
        ValueError: a size below 1.
        TypeError: a size that is not an integer.
    """
    check_at_least(1, **sizes)


def check_at_least(least: int, **sizes: int) -> None:
    """Refuse a size that is not an integer of at least `least`."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, (Integral, torch.SymInt)):
            raise TypeError(f"{name} must be an integer, got {size!r} ({type(size).__name__}).")
        if size < least:
            raise ValueError(f"{name} must be at least {least}, got {size}.")


def check_even(width: int, name: str = "head_dim") -> None:
    """Refuse a head whose elements can't be paired."""
    if width % 2:
        raise ValueError(
            f"{name} must be even, got {width}: rotary positions rotate its elements in pairs, so choose "
            f"{name}={width + 1}."
        )


def check_divisible(name: str, width: int, parts_name: str, parts: int, remedy: str = "") -> None:
    """Refuse a width that can't be divided into equal parts; the message names the nearest widths that can.

    Args:
        name, width: the width, and what the message calls it.
        parts_name, parts: the number of parts, and what the message calls it.
        remedy: what else may be done, appended to the message.

    Raises:
        ValueError: parts does not divide width.
    """
    if width % parts:
        lower, upper = width // parts * parts, (width // parts + 1) * parts
        nearest = f"{lower} or {upper}" if lower else f"{upper}"
        raise ValueError(
            f"{name}={width} can't be cut into {parts_name}={parts} equal parts: choose {name}={nearest}{remedy}."
        )


def check_widths(d_out: int, num_heads: int, d_qk: int | None, d_v: int | None, out_proj: bool) -> tuple[int, int]:
    """Refuse widths that num_heads does not divide, and return the widths over all heads: (d_qk, d_v)."""
    widths = {"d_qk": d_qk, "d_v": d_v}
    missing = " and ".join(name for name, width in widths.items() if width is None)
    for name, width in widths.items():
        if width is None:
            check_divisible("d_out", d_out, "num_heads", num_heads, remedy=f", or pass {missing}")
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
    """Refuse an input that the module's projection can't take; `name` is the argument's name."""
    weight = projection.weight
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(x).__name__}: wrap it with torch.tensor({name}).")
    shape, dtype = x.shape, x.dtype
    if len(shape) != 3:
        remedy = f"add the batch axis with {name}[None]" if len(shape) == 2 else "reshape it to three axes"
        raise ValueError(f"{name} must be (batch, token, width), got the shape {tuple(shape)}: {remedy}.")
    if shape[-1] != projection.in_features:
        raise ValueError(
            f"{name} has the width {shape[-1]} (shape {tuple(shape)}), but the module was built with "
            f"{width_name}={projection.in_features}: build it with {width_name}={shape[-1]}, or check the order of "
            f"{name}'s axes."
        )
    if not dtype.is_floating_point:
        raise TypeError(
            f"{name} must be floating point, got {dtype}: embed the token ids first, or call {name}.float()."
        )
    if dtype != weight.dtype and not _autocasts(x.device):
        raise TypeError(
            f"{name} is {dtype}, but the module's weights are {weight.dtype}: call module.to({name}.dtype)."
        )
    if x.device != weight.device:
        raise ValueError(
            f"{name} is on {x.device}, but the module's weights are on {weight.device}: call "
            f"{name}.to({str(weight.device)!r})."
        )


def check_context(context: Tensor, x: Tensor, projection: nn.Linear, causal: bool, cache: object) -> None:
    """Refuse a context (what keys and values are computed from, instead of x) that does not fit the other arguments."""
    check_input(context, projection, "context")
    if causal:
        raise ValueError(
            "context needs a module built with causal=False: a position in x says nothing about positions in context; "
            "to hide keys, pass keep."
        )
    if cache is not None:
        raise ValueError(
            "context and cache can't be given together: a cache grows with x, whereas the keys and "
            "values of a context stay the same."
        )
    if context.shape[0] != x.shape[0]:
        raise ValueError(
            f"context has {context.shape[0]} samples and x has {x.shape[0]}: there is one context for each sample."
        )


def check_heads(queries: Tensor, keys: Tensor, values: Tensor) -> None:
    """Refuse queries, keys and values that do not fit each other."""
    queries_shape, dtype = _shape_and_dtype("queries", queries)
    device = queries.device
    keys_shape, _ = _shape_and_dtype("keys", keys, dtype, device)
    values_shape, _ = _shape_and_dtype("values", values, dtype, device)
    if not queries_shape[0] == keys_shape[0] == values_shape[0]:
        raise ValueError(
            f"queries, keys and values differ in batch size ({queries_shape[0]}, {keys_shape[0]}, "
            f"{values_shape[0]}): axis 0 must be equal."
        )
    if keys_shape[1:3] != values_shape[1:3]:
        raise ValueError(
            f"keys {tuple(keys_shape)} and values {tuple(values_shape)} must agree in heads and tokens "
            "(axes 1 and 2): there is one value for each key."
        )
    num_heads, head_dim, num_kv_heads = queries_shape[1], queries_shape[3], keys_shape[1]
    if head_dim != keys_shape[3] or head_dim == 0:
        raise ValueError(
            f"queries have head_dim {head_dim} and keys {keys_shape[3]}: a score is their dot product, so "
            "both must be the same and at least 1."
        )
    if num_kv_heads == 0 or num_heads == 0 or num_heads % num_kv_heads:
        raise ValueError(
            f"{num_heads} query heads can't share {num_kv_heads} kv heads evenly: the number of query heads "
            "must be a multiple of the number of kv heads."
        )


def _shape_and_dtype(
    name: str, tensor: Tensor, dtype: torch.dtype | None = None, device: torch.device | None = None
) -> tuple[torch.Size, torch.dtype]:
    """Check queries, keys or values; the dtype and device that keys and values need are the queries'.

    Each property is read once, because each access costs time in a recording.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}.")
    shape, actual = tensor.shape, tensor.dtype
    if len(shape) != 4:
        raise ValueError(
            f"{name} must be (batch, head, token, head_dim), got the shape {tuple(shape)}: "
            "split the heads first with view and transpose(1, 2)."
        )
    if not actual.is_floating_point:
        raise TypeError(f"{name} must be floating point, got {actual}: call {name}.float().")
    if dtype is None or device is None:
        return shape, actual
    if actual != dtype and not _autocasts(device):
        raise TypeError(f"{name} are {actual}, but queries are {dtype}: convert them to one dtype.")
    if tensor.device != device:
        raise ValueError(f"{name} are on {tensor.device}, but queries are on {device}: move them.")
    return shape, actual


def check_keep(keep: Tensor, shape: Sequence[int], device: torch.device) -> Tensor:
    """Return keep if it is bool, on the right device and broadcasts to (batch, head, query, key); otherwise refuse it.

    A mask of three axes is read as (head, query, key), as broadcasting does; if it could also be meant as
    (batch, query, key), it is refused, because that mistake raises no error.
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
    axes = shape[4 - keep.dim() :]  # the last axes of (batch, head, query, key)
    if any(size not in (1, full) for size, full in zip(keep.shape, axes)):  # noqa: B905 (torch 2.6 can't compile strict)
        raise ValueError(
            f"keep of shape {tuple(keep.shape)} does not broadcast to {names}{_mask_remedy(keep.shape, shape)}."
        )
    if keep.dim() == 3 and keep.shape[0] == batch == num_heads != 1:
        raise ValueError(
            f"keep of shape {tuple(keep.shape)} could be one mask per sample or one per head, since batch and heads "
            f"are both {batch}: write keep[:, None] for samples or keep[None] for heads."
        )
    return keep


def _autocasts(device: torch.device) -> bool:
    return device.type != "meta" and torch.is_autocast_enabled(device.type)  # "meta" has no autocast and raises


def _mask_remedy(mask_shape: Sequence[int], shape: Sequence[int]) -> str:
    batch, _, query_len, key_len = shape
    if tuple(mask_shape) == (batch, key_len):
        return ": it looks like one row per sample, so write keep[:, None, None]"
    if tuple(mask_shape) in ((batch, query_len, key_len), (batch, 1, key_len)):
        return ": it looks like one mask per sample, so write keep[:, None]"
    if query_len != key_len and tuple(mask_shape[-2:]) == (key_len, query_len):
        return ": its last two axes look swapped, so write keep.transpose(-2, -1)"
    if query_len != key_len and mask_shape[-1] == query_len:
        return f": its last axis must fit the {key_len} keys (with a cache, those in it too), not the queries"
    return ""
