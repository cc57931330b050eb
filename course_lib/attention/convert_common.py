"""What all conversions do: check the form, build the new module without drawing weights, and load copies into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from .base import Attention
from .grouped_query import GroupedQueryAttention
from .multi_query import MultiQueryAttention
from .weight_split import MultiHeadAttention

Form = TypeVar("Form", bound=nn.Module)


def check_form(module: nn.Module, form: type | tuple[type, ...]) -> None:
    """Refuse a module of a different form."""
    if not isinstance(module, form):
        names = " or ".join(each.__name__ for each in (form if isinstance(form, tuple) else (form,)))
        raise TypeError(f"this conversion takes a {names}, got {type(module).__name__}.")


def sizes_of(module: MultiHeadAttention | MultiQueryAttention | GroupedQueryAttention) -> tuple[int, int, int]:
    """(d_in, d_out, num_heads), as the constructors take them."""
    d_merged = module.num_heads * module.value_dim
    d_out = d_merged if module.out_proj is None else module.out_proj.out_features
    return module.q_proj.in_features, d_out, module.num_heads


def options_of(module: Attention, out_proj: nn.Linear | None, *, widths: bool = False) -> dict[str, object]:
    """The keyword arguments of a constructor; d_qk, d_v and kernel only if the new form has them."""
    options: dict[str, object] = {"causal": module.causal, "dropout": module.dropout}
    options |= {"bias": module.q_proj.bias is not None, "out_proj": out_proj is not None}
    if widths:
        d_qk, d_v = module.num_heads * module.head_dim, module.num_heads * module.value_dim
        options |= {"d_qk": d_qk, "d_v": d_v, "kernel": module.kernel}
    return options


def build_empty(form: Callable[..., Form], *sizes: int, **options: object) -> Form:
    """A module without storage: draws no random numbers for weights that are about to be replaced."""
    with torch.device("meta"):
        return form(*sizes, **options)


def load_weights(target: Form, state: dict[str, Tensor], source: nn.Module) -> Form:
    """Fill target from state, and what state lacks with the weights of the same name in source.

    Dtype, device and training mode are those of source; if all of source is frozen, so is target.
    """
    carried = {name: tensor for name, tensor in source.state_dict().items() if name in target.state_dict()}
    copies = {name: tensor.detach().clone() for name, tensor in (carried | state).items()}
    target.load_state_dict(copies, assign=True)
    target.requires_grad_(any(parameter.requires_grad for parameter in source.parameters()))
    return target.train(source.training)
