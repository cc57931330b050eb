"""Conversion between numbers of kv heads: heads of keys and values are pooled into fewer, or copied into more."""

from __future__ import annotations

from torch import Tensor

from .checks import check_positive
from .convert_common import build_empty, check_form, load_weights, options_of, sizes_of
from .grouped_query import GroupedQueryAttention
from .multi_query import MultiQueryAttention
from .weight_split import MultiHeadAttention


def multi_head_to_grouped_query(
    module: MultiHeadAttention | GroupedQueryAttention, num_kv_heads: int
) -> GroupedQueryAttention:
    """Pool the keys and values of each group of heads into their mean; the queries are unchanged.

    The output changes, unless the heads of a group had equal keys and values; the result is a starting point for
    further training. Two steps (12 kv heads to 4 to 2) give the same weights as one (12 to 2).

    Args:
        module: a `MultiHeadAttention`, or a `GroupedQueryAttention` with more kv heads.
        num_kv_heads: number of heads of keys and values that remain; divides the module's.

    Returns:
        A new `GroupedQueryAttention`.

    Raises:
        TypeError: a module of a different form.
        ValueError: a num_kv_heads that does not divide the module's.

    Source: Ainslie et al., 2023, section 2.1.
    """
    check_form(module, (MultiHeadAttention, GroupedQueryAttention))
    check_positive(num_kv_heads=num_kv_heads)
    before = module.num_kv_heads
    if before % num_kv_heads:
        raise ValueError(
            f"the module's {before} kv heads can't be pooled into num_kv_heads={num_kv_heads} groups of equal size: "
            f"choose a num_kv_heads that divides {before}."
        )
    grouped = build_empty(
        GroupedQueryAttention, *sizes_of(module), num_kv_heads, **options_of(module, module.out_proj, widths=True)
    )
    return load_weights(grouped, _pool_kv(module, num_kv_heads), module)


def multi_head_to_multi_query(module: MultiHeadAttention | GroupedQueryAttention) -> MultiQueryAttention:
    """Pool the keys and values of all heads into their mean; the queries are unchanged.

    Args:
        module: a `MultiHeadAttention` or a `GroupedQueryAttention`.

    Returns:
        A new `MultiQueryAttention`; its output differs, unless all heads had equal keys and values.

    Raises:
        TypeError: a module of a different form.
    """
    check_form(module, (MultiHeadAttention, GroupedQueryAttention))
    multi_query = build_empty(
        MultiQueryAttention, *sizes_of(module), **options_of(module, module.out_proj, widths=True)
    )
    return load_weights(multi_query, _pool_kv(module, 1), module)


def multi_query_to_multi_head(module: MultiQueryAttention | GroupedQueryAttention) -> MultiHeadAttention:
    """Give every query head its own copy of the keys and values that it shared.

    Args:
        module: a `MultiQueryAttention` or a `GroupedQueryAttention`.

    Returns:
        A new `MultiHeadAttention`; the same output for the same x.

    Raises:
        TypeError: a module of a different form.
    """
    check_form(module, (MultiQueryAttention, GroupedQueryAttention))
    split = build_empty(MultiHeadAttention, *sizes_of(module), **options_of(module, module.out_proj, widths=True))
    state = {}
    for name, tensor in module.state_dict().items():
        if name.startswith(("k_proj", "v_proj")):
            by_head = tensor.unflatten(0, (module.num_kv_heads, -1))  # (g * d, ...) -> (g, d, ...)
            shared_by = module.num_heads // by_head.shape[0]
            state[name] = by_head.repeat_interleave(shared_by, dim=0).flatten(0, 1)  # -> (h, d, ...) -> (h * d, ...)
    return load_weights(split, state, module)


def _pool_kv(module: MultiHeadAttention | GroupedQueryAttention, num_kv_heads: int) -> dict[str, Tensor]:
    before = module.num_kv_heads
    state = {}
    for name, tensor in module.state_dict().items():
        if name.startswith(("k_proj", "v_proj")):
            by_group = tensor.unflatten(0, (num_kv_heads, before // num_kv_heads, -1))  # (g, heads, d, ...)
            state[name] = by_group.mean(dim=1).flatten(0, 1)  # (g, d, ...) -> (g * d, ...)
    return state
