"""Finds out by asking a module which query heads read which head of keys and values."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping

import torch
from torch import Tensor, nn

PARTS = ("q_proj", "k_proj", "v_proj", "num_heads", "head_dim")
CHANGED = 1e-9  # a weight or a context that moves by more was read, in 64 bits


def check_modules(modules: Mapping[str, nn.Module], x: Tensor) -> None:
    """Refuse what can't be asked.

    Args:
        modules: name -> attention module.
        x: (batch, token, d_in).

    Raises:
        ValueError: no module, an x of another shape, with fewer than two tokens or without values.
        TypeError: modules that aren't a dict, a module of another make, an x that isn't floating point.
    """
    if not isinstance(modules, Mapping):
        raise TypeError(f"modules must be a dict of name -> attention module, got {type(modules).__name__}.")
    if not modules:
        raise ValueError("modules is empty: give a dict of name -> attention module.")
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"x must be a floating-point tensor, got {kind}.")
    if x.dim() != 3 or x.shape[0] < 1 or x.shape[1] < 2 or x.is_meta:
        where = " on the meta device" if x.is_meta else ""
        raise ValueError(f"x must be (batch, token, d_in) with two tokens or more, got {tuple(x.shape)}{where}.")
    for name, module in modules.items():
        missing = [part for part in PARTS if not hasattr(module, part)]
        if missing:
            raise TypeError(f"module {name!r} has no {missing[0]}: give an attention module of the course's forms.")
        if "return_weights" not in inspect.signature(module.forward).parameters:
            raise TypeError(f"module {name!r} takes no return_weights: its forward must be able to give the weights.")
        if module.q_proj.weight.shape[1] != x.shape[2]:
            raise ValueError(
                f"module {name!r} takes tokens of width {module.q_proj.weight.shape[1]}, but x is {tuple(x.shape)}."
            )


def num_kv_heads(module: nn.Module) -> int:
    """How many heads of keys the module's k_proj really makes."""
    return module.k_proj.weight.shape[0] // module.head_dim


def twin_of(module: nn.Module) -> nn.Module:
    """A copy that may be changed: in eval mode, in 64 bits, with the kernel that shows the weights."""
    twin = copy.deepcopy(module).eval().double()
    twin.kernel = "explicit"
    return twin


def keys_and_values(module: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """What a cache holds: real keys and values by head, (batch, kv head, token, width), in 64 bits."""
    batch, num_tokens, _ = x.shape
    twin = twin_of(module)
    with torch.no_grad():
        keys, values = (
            projection(x.double()).view(batch, num_tokens, num_kv_heads(module), -1).transpose(1, 2)
            for projection in (twin.k_proj, twin.v_proj)
        )
    return keys, values


def find_readers(name: str, module: nn.Module, x: Tensor) -> tuple[list[list[int]], list[list[int]]]:
    """Change one head of keys, then one of values, at a time, and see which query heads notice.

    Args:
        name: what errors call the module.
        module: stays as it is; a copy is changed.
        x: (batch, token, d_in).

    Returns:
        For each head of keys the query heads whose weights move, for each head of values those whose context moves.

    Raises:
        ValueError: nothing moves at all, so that nothing can be said.
    """
    twin = twin_of(module)
    contexts: list[Tensor] = []  # what comes out of the heads, (batch, token, head * width), before W_O mixes them
    if getattr(twin, "out_proj", None) is not None:
        twin.out_proj.register_forward_pre_hook(lambda _, given: contexts.append(given[0]))

    def ask() -> tuple[Tensor, Tensor]:
        contexts.clear()
        output, weights = twin(x.detach().double(), return_weights=True)
        return weights, contexts[0] if contexts else output

    generator = torch.Generator().manual_seed(0)
    key_readers: list[list[int]] = []
    value_readers: list[list[int]] = []
    with torch.no_grad():
        weights, context = ask()
        for projection, readers in ((twin.k_proj, key_readers), (twin.v_proj, value_readers)):
            for rows in projection.weight.chunk(num_kv_heads(module)):  # (width, d_in), a part of the weight itself
                kept = rows.clone()
                rows += 3 * torch.randn(rows.shape, generator=generator, dtype=rows.dtype, device="cpu").to(rows.device)
                new_weights, new_context = ask()
                rows.copy_(kept)
                if readers is key_readers:
                    moved = (new_weights - weights).abs().amax(dim=(0, 2, 3))  # (head,)
                else:
                    moved = (new_context - context).abs().amax(dim=(0, 1)).view(module.num_heads, -1).amax(dim=1)
                readers.append((moved > CHANGED).nonzero().flatten().tolist())
    if not any(key_readers):
        raise ValueError(
            f"module {name!r} gives the same weights whatever its keys are: give an x whose tokens differ."
        )
    return key_readers, value_readers
