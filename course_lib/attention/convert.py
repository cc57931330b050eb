"""Conversion of weights from one form to another, so that two forms can be shown to compute the same."""

from __future__ import annotations

import torch
from torch import nn

from .convert_common import build_empty, check_form, load_weights, options_of, sizes_of
from .convert_kv_heads import multi_head_to_grouped_query, multi_head_to_multi_query, multi_query_to_multi_head
from .single_head import SingleHeadAttention
from .weight_split import MultiHeadAttention
from .wrapper import MultiHeadAttentionWrapper

__all__ = [
    "from_torch",
    "multi_head_to_grouped_query",
    "multi_head_to_multi_query",
    "multi_query_to_multi_head",
    "split_to_wrapper",
    "to_torch",
    "wrapper_to_split",
]


def wrapper_to_split(wrapper: MultiHeadAttentionWrapper) -> MultiHeadAttention:
    """Stack the wrapper's heads into one matrix per projection: the rows of `q_proj.weight` are head 0, head 1, ...

    Args:
        wrapper: any `MultiHeadAttentionWrapper`.

    Returns:
        A new `MultiHeadAttention` with copies of the weights; the same output for the same x.

    Raises:
        TypeError: a module of a different form.
    """
    check_form(wrapper, MultiHeadAttentionWrapper)
    head: SingleHeadAttention = wrapper.heads[0]  # pyright: ignore[reportAssignmentType]  # a ModuleList names no type
    d_out = wrapper.num_heads * wrapper.head_dim
    options = options_of(head, wrapper.out_proj)
    split = build_empty(MultiHeadAttention, head.q_proj.in_features, d_out, wrapper.num_heads, **options)
    by_head = [each.state_dict() for each in wrapper.heads]  # each with q_proj.weight, q_proj.bias, k_proj.weight, ...
    state = {name: torch.cat([each[name] for each in by_head]) for name in by_head[0]}  # h times (d, m) -> (h * d, m)
    return load_weights(split, state, wrapper)


def split_to_wrapper(split: MultiHeadAttention) -> MultiHeadAttentionWrapper:
    """Split each projection into one block of rows per head.

    Args:
        split: a `MultiHeadAttention` whose d_qk and d_v are d_out, as the wrapper's heads have one width.

    Returns:
        A new `MultiHeadAttentionWrapper` with copies of the weights; the same output for the same x.

    Raises:
        TypeError: a module of a different form.
        ValueError: widths that a wrapper can't have.
    """
    check_form(split, MultiHeadAttention)
    d_in, d_out = _one_width(split, "a wrapper")
    options = options_of(split, split.out_proj)
    wrapper = build_empty(MultiHeadAttentionWrapper, d_in, d_out, split.num_heads, **options)
    state = {}
    for name, tensor in split.state_dict().items():
        if not name.startswith("out_proj"):
            for head, block in enumerate(tensor.chunk(split.num_heads)):  # (h * d, m) -> h times (d, m)
                state[f"heads.{head}.{name}"] = block
    return load_weights(wrapper, state, split)


def to_torch(split: MultiHeadAttention) -> nn.MultiheadAttention:
    """Copy the weights into PyTorch's own module (batch_first=True).

    PyTorch's module takes its causal mask in each call, in the opposite convention: pass
    `attn_mask=to_torch_mask(causal_keep(num_tokens))`.

    Args:
        split: a `MultiHeadAttention` with d_in = d_out = d_qk = d_v.

    Returns:
        A new `torch.nn.MultiheadAttention` with copies of the weights; the identity matrix where split has no out_proj.

    Raises:
        TypeError: a module of a different form.
        ValueError: widths that PyTorch's module can't have.
    """
    check_form(split, MultiHeadAttention)
    d_in, d_out = _one_width(split, "torch.nn.MultiheadAttention")
    if d_in != d_out:
        raise ValueError(
            f"torch.nn.MultiheadAttention has one width for everything, got d_in={d_in} and d_out={d_out}: build the "
            "module with d_in equal to d_out."
        )
    bias = split.q_proj.bias is not None
    module = build_empty(
        nn.MultiheadAttention, d_out, split.num_heads, dropout=split.dropout, bias=bias, batch_first=True
    )
    projections = (split.q_proj, split.k_proj, split.v_proj)
    identity = torch.eye(d_out).to(split.q_proj.weight)
    state = {"in_proj_weight": torch.cat([projection.weight for projection in projections])}
    state["out_proj.weight"] = identity if split.out_proj is None else split.out_proj.weight
    if bias:
        state["in_proj_bias"] = torch.cat([projection.bias for projection in projections])
        state["out_proj.bias"] = identity.new_zeros(d_out) if split.out_proj is None else split.out_proj.bias
    return load_weights(module, state, split)


def from_torch(module: nn.MultiheadAttention, *, causal: bool = True) -> MultiHeadAttention:
    """Convert PyTorch's module to the course's form.

    Args:
        module: a `torch.nn.MultiheadAttention` for self-attention: one width, without add_bias_kv or add_zero_attn.
            batch_first may be True or False; the course's form always takes (batch, token, width).
        causal: whether the new module hides later tokens; PyTorch's module does not store it.

    Returns:
        A new `MultiHeadAttention` with copies of the weights.

    Raises:
        TypeError: a module of a different class.
        ValueError: keys or values of a different width, add_bias_kv=True or add_zero_attn=True.
    """
    check_form(module, nn.MultiheadAttention)
    if module.in_proj_weight is None:
        raise ValueError(
            f"the module has kdim={module.kdim}, vdim={module.vdim} and embed_dim={module.embed_dim}: only "
            "self-attention with a single width can be converted."
        )
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError(
            f"the module was built with add_bias_kv={module.bias_k is not None} and "
            f"add_zero_attn={module.add_zero_attn}: build it with both set to False, because the course's "
            "form supports neither."
        )
    bias = module.in_proj_bias is not None
    d_in, num_heads, dropout = module.embed_dim, module.num_heads, module.dropout
    split = build_empty(MultiHeadAttention, d_in, d_in, num_heads, causal=causal, dropout=dropout, bias=bias)
    names = ("q_proj", "k_proj", "v_proj")
    state = {f"{name}.weight": part for name, part in zip(names, module.in_proj_weight.chunk(3), strict=True)}
    if bias:
        state |= {f"{name}.bias": part for name, part in zip(names, module.in_proj_bias.chunk(3), strict=True)}
    return load_weights(split, state, module)


def _one_width(split: MultiHeadAttention, target: str) -> tuple[int, int]:
    d_in, d_out, _ = sizes_of(split)
    d_qk, d_v = split.q_proj.out_features, split.v_proj.out_features
    if not d_qk == d_v == d_out:
        raise ValueError(
            f"{target} has one width for queries, values and output, got d_qk={d_qk}, d_v={d_v} and d_out={d_out}: "
            "build the module without d_qk and d_v."
        )
    return d_in, d_out
