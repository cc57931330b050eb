"""Weights carried from one form to another, so that two forms can be shown to give the same numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .checks import check_positive
from .grouped_query import GroupedQueryAttention
from .multi_query import MultiQueryAttention
from .weight_split import MultiHeadAttention
from .wrapper import MultiHeadAttentionWrapper


def wrapper_to_split(wrapper: MultiHeadAttentionWrapper) -> MultiHeadAttention:
    """The wrapper's heads stacked into one matrix a projection: rows of `q_proj.weight` are head 0, head 1, ...

    Args:
        wrapper: any `MultiHeadAttentionWrapper`.

    Returns:
        A new `MultiHeadAttention` with copies of the weights; the same output for the same x.

    Raises:
        TypeError: not a `MultiHeadAttentionWrapper`.
    """
    _check_form(wrapper, MultiHeadAttentionWrapper)
    head = wrapper.heads[0]
    d_out = wrapper.num_heads * wrapper.head_dim
    options = _options(head, out_proj=wrapper.out_proj is not None)
    split = _build(MultiHeadAttention, head.q_proj.in_features, d_out, wrapper.num_heads, **options)
    state = {}
    for name in head.state_dict():  # q_proj.weight, q_proj.bias, k_proj.weight, ...
        state[name] = torch.cat([one.state_dict()[name] for one in wrapper.heads])  # h times (d, m) -> (h * d, m)
    return _load(split, state, wrapper)


def split_to_wrapper(split: MultiHeadAttention) -> MultiHeadAttentionWrapper:
    """Each projection cut into one block of rows a head.

    Args:
        split: a `MultiHeadAttention` whose d_qk and d_v are d_out, as the wrapper's heads have one width.

    Returns:
        A new `MultiHeadAttentionWrapper` with copies of the weights; the same output for the same x.

    Raises:
        TypeError: not a `MultiHeadAttention`.
        ValueError: widths that a wrapper can't hold.
    """
    _check_form(split, MultiHeadAttention)
    d_in, d_out = _one_width(split, "a wrapper")
    options = _options(split, out_proj=split.out_proj is not None)
    wrapper = _build(MultiHeadAttentionWrapper, d_in, d_out, split.num_heads, **options)
    state = {}
    for name, tensor in split.state_dict().items():
        if not name.startswith("out_proj"):
            for head, block in enumerate(tensor.chunk(split.num_heads)):  # (h * d, m) -> h times (d, m)
                state[f"heads.{head}.{name}"] = block
    return _load(wrapper, state, split)


def to_torch(split: MultiHeadAttention) -> nn.MultiheadAttention:
    """The same weights in PyTorch's own module (batch_first=True).

    PyTorch's module takes its causal mask at each call, in the opposite sense: pass
    `attn_mask=to_torch_mask(causal_keep(num_tokens))`.

    Args:
        split: a `MultiHeadAttention` with d_in = d_out = d_qk = d_v.

    Returns:
        A new `torch.nn.MultiheadAttention` with copies of the weights. Where split has no out_proj, the identity
        stands in for it.

    Raises:
        TypeError: not a `MultiHeadAttention`.
        ValueError: widths that PyTorch's module can't hold.
    """
    _check_form(split, MultiHeadAttention)
    d_in, d_out = _one_width(split, "torch.nn.MultiheadAttention")
    if d_in != d_out:
        raise ValueError(
            f"torch.nn.MultiheadAttention has one width for everything, got d_in={d_in} and d_out={d_out}: build the "
            "module with d_in equal to d_out."
        )
    bias = split.q_proj.bias is not None
    module = _build(nn.MultiheadAttention, d_out, split.num_heads, dropout=split.dropout, bias=bias, batch_first=True)
    projections = (split.q_proj, split.k_proj, split.v_proj)
    identity = torch.eye(d_out).to(split.q_proj.weight)
    out_weight = identity if split.out_proj is None else split.out_proj.weight
    state = {"in_proj_weight": torch.cat([each.weight for each in projections]), "out_proj.weight": out_weight}
    if bias:
        state["in_proj_bias"] = torch.cat([each.bias for each in projections])
        state["out_proj.bias"] = identity.new_zeros(d_out) if split.out_proj is None else split.out_proj.bias
    return _load(module, state, split)


def from_torch(module: nn.MultiheadAttention, *, causal: bool = True) -> MultiHeadAttention:
    """PyTorch's module in the form of the course.

    Args:
        module: a `torch.nn.MultiheadAttention` for self-attention: one width, without add_bias_kv or add_zero_attn.
            batch_first may be either; the course's form always takes (batch, token, width).
        causal: whether the new module hides later tokens; PyTorch's module does not remember it.

    Returns:
        A new `MultiHeadAttention` with copies of the weights.

    Raises:
        TypeError: not a `torch.nn.MultiheadAttention`.
        ValueError: keys or values of another width, add_bias_kv=True or add_zero_attn=True.
    """
    _check_form(module, nn.MultiheadAttention)
    if module.in_proj_weight is None:
        raise ValueError(
            f"the module's keys and values are kdim={module.kdim} and vdim={module.vdim} wide, its queries "
            f"embed_dim={module.embed_dim}: only self-attention, with one width, can be carried over."
        )
    if module.bias_k is not None or module.add_zero_attn:
        raise ValueError(
            f"the module was built with add_bias_kv={module.bias_k is not None} and "
            f"add_zero_attn={module.add_zero_attn}: build it with both False, the course's form has neither."
        )
    bias = module.in_proj_bias is not None
    split = _build(
        MultiHeadAttention,
        module.embed_dim,
        module.embed_dim,
        module.num_heads,
        causal=causal,
        dropout=module.dropout,
        bias=bias,
    )
    names = ("q_proj", "k_proj", "v_proj")
    state = {f"{name}.weight": part for name, part in zip(names, module.in_proj_weight.chunk(3), strict=True)}
    if bias:
        state |= {f"{name}.bias": part for name, part in zip(names, module.in_proj_bias.chunk(3), strict=True)}
    return _load(split, state, module)


def multi_head_to_grouped_query(
    module: MultiHeadAttention | GroupedQueryAttention, num_kv_heads: int
) -> GroupedQueryAttention:
    """Mean-pools the keys and values of each group of heads into one; the queries stay.

    The output changes, unless the heads of a group had equal keys and values: it is a start for further training.
    In two steps (12 kv heads to 4 to 2) it gives the same weights as in one (12 to 2).

    Args:
        module: a `MultiHeadAttention`, or a `GroupedQueryAttention` with more kv heads.
        num_kv_heads: number of heads of keys and values that remain; divides those there are.

    Returns:
        A new `GroupedQueryAttention`.

    Raises:
        TypeError: another form.
        ValueError: a num_kv_heads that does not divide the module's.

    Source: Ainslie et al., 2023, section 2.1.
    """
    _check_form(module, (MultiHeadAttention, GroupedQueryAttention))
    check_positive(num_kv_heads=num_kv_heads)
    before = getattr(module, "num_kv_heads", module.num_heads)
    if before % num_kv_heads:
        raise ValueError(
            f"the module's {before} kv heads can't be pooled into num_kv_heads={num_kv_heads} groups of equal size: "
            f"choose a num_kv_heads that divides {before}."
        )
    grouped = _build(GroupedQueryAttention, *_sizes(module), num_kv_heads, **_options(module, widths=True))
    return _load(grouped, _pool_kv(module, num_kv_heads), module)


def multi_head_to_multi_query(module: MultiHeadAttention | GroupedQueryAttention) -> MultiQueryAttention:
    """Mean-pools the keys and values of all heads into one; the queries stay.

    Args:
        module: a `MultiHeadAttention` or a `GroupedQueryAttention`.

    Returns:
        A new `MultiQueryAttention`; its output differs, unless all heads had equal keys and values.

    Raises:
        TypeError: another form.
    """
    _check_form(module, (MultiHeadAttention, GroupedQueryAttention))
    multi_query = _build(MultiQueryAttention, *_sizes(module), **_options(module, widths=True))
    return _load(multi_query, _pool_kv(module, 1), module)


def multi_query_to_multi_head(module: MultiQueryAttention | GroupedQueryAttention) -> MultiHeadAttention:
    """Gives every query head its own copy of the keys and values it shared.

    Args:
        module: a `MultiQueryAttention` or a `GroupedQueryAttention`.

    Returns:
        A new `MultiHeadAttention`; the same output for the same x.

    Raises:
        TypeError: another form.
    """
    _check_form(module, (MultiQueryAttention, GroupedQueryAttention))
    split = _build(MultiHeadAttention, *_sizes(module), **_options(module, widths=True))
    state = {}
    for name, tensor in module.state_dict().items():
        if name.startswith(("k_proj", "v_proj")):
            by_head = tensor.unflatten(0, (getattr(module, "num_kv_heads", 1), -1))  # (g * d, ...) -> (g, d, ...)
            shared_by = module.num_heads // by_head.shape[0]
            state[name] = by_head.repeat_interleave(shared_by, dim=0).flatten(0, 1)  # -> (h, d, ...) -> (h * d, ...)
    return _load(split, state, module)


def _pool_kv(module: MultiHeadAttention | GroupedQueryAttention, num_kv_heads: int) -> dict[str, Tensor]:
    before = getattr(module, "num_kv_heads", module.num_heads)
    state = {}
    for name, tensor in module.state_dict().items():
        if name.startswith(("k_proj", "v_proj")):
            by_group = tensor.unflatten(0, (num_kv_heads, before // num_kv_heads, -1))  # (g, heads, d, ...)
            state[name] = by_group.mean(dim=1).flatten(0, 1)  # (g, d, ...) -> (g * d, ...)
    return state


def _check_form(module: nn.Module, form: type | tuple[type, ...]) -> None:
    if not isinstance(module, form):
        names = " or ".join(each.__name__ for each in (form if isinstance(form, tuple) else (form,)))
        raise TypeError(f"this conversion takes a {names}, got {type(module).__name__}.")


def _one_width(split: MultiHeadAttention, target: str) -> tuple[int, int]:
    d_in, d_out, _ = _sizes(split)
    d_qk, d_v = split.q_proj.out_features, split.v_proj.out_features
    if not d_qk == d_v == d_out:
        raise ValueError(
            f"{target} has one width for queries, values and output, got d_qk={d_qk}, d_v={d_v} and d_out={d_out}: "
            "build the module without d_qk and d_v."
        )
    return d_in, d_out


def _sizes(module: MultiHeadAttention | MultiQueryAttention | GroupedQueryAttention) -> tuple[int, int, int]:
    d_merged = module.num_heads * module.value_dim
    d_out = d_merged if module.out_proj is None else module.out_proj.out_features
    return module.q_proj.in_features, d_out, module.num_heads


def _options(module: nn.Module, *, out_proj: bool | None = None, widths: bool = False) -> dict:
    options = {"causal": module.causal, "dropout": module.dropout, "bias": module.q_proj.bias is not None}
    if widths:
        d_qk, d_v = module.num_heads * module.head_dim, module.num_heads * module.value_dim
        options |= {"d_qk": d_qk, "d_v": d_v, "kernel": module.kernel}
    options["out_proj"] = module.out_proj is not None if out_proj is None else out_proj
    return options


def _build(form: type, *sizes: int, **options) -> nn.Module:
    """A module without storage: no random number is drawn for weights that are about to be replaced."""
    with torch.device("meta"):
        return form(*sizes, **options)


def _load(target: nn.Module, state: dict[str, Tensor], source: nn.Module) -> nn.Module:
    """Fill target with state and, where state has no word on it, with source's own weights.

    Dtype, device and mode are source's; where all of source is frozen, so is target.
    """
    carried = {name: tensor for name, tensor in source.state_dict().items() if name in target.state_dict()}
    copies = {name: tensor.detach().clone() for name, tensor in (carried | state).items()}
    target.load_state_dict(copies, assign=True)
    target.requires_grad_(any(parameter.requires_grad for parameter in source.parameters()))
    return target.train(source.training)
