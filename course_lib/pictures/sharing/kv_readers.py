"""Find out which query heads read which key and value heads by changing a module's parameters."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, nn

CHANGED = 1e-9  # smallest change, in float64, of an attention weight or of the context that shows a head was read
Part = TypeVar("Part")
NOISE = 3  # standard deviation of the noise that is added to a head's parameters


@dataclass(frozen=True, eq=False)
class ModuleCopy:
    """A copy of an attention module to experiment on: in eval mode, in float64, with a kernel that returns weights."""

    name: str  # the module's name in pictures and errors
    module: nn.Module
    q_proj: nn.Linear
    k_proj: nn.Linear
    v_proj: nn.Linear
    out_proj: nn.Linear | None
    num_heads: int
    head_dim: int

    @classmethod
    def of(cls, name: str, module: nn.Module) -> ModuleCopy:
        """Copy a module; TypeError if it isn't one of the course's forms."""
        twin = copy.deepcopy(module).eval().double()
        vars(twin)["kernel"] = "explicit"
        out_proj = getattr(twin, "out_proj", None)
        out_proj = out_proj if isinstance(out_proj, nn.Linear) else None
        q_proj, k_proj, v_proj = (_part(name, twin, part, nn.Linear) for part in ("q_proj", "k_proj", "v_proj"))
        num_heads, head_dim = (_part(name, twin, part, int) for part in ("num_heads", "head_dim"))
        if "return_weights" not in inspect.signature(module.forward).parameters:
            raise TypeError(f"module {name!r} takes no return_weights: its forward must be able to give the weights.")
        return cls(name, twin, q_proj, k_proj, v_proj, out_proj, num_heads, head_dim)

    @property
    def num_kv_heads(self) -> int:
        """The number of key heads that k_proj really computes."""
        return self.k_proj.weight.shape[0] // self.head_dim

    @property
    def kept(self) -> int:
        """The elements of keys and values per token in a cache."""
        return self.k_proj.weight.shape[0] + self.v_proj.weight.shape[0]

    def split(self, projected: Tensor, num_heads: int) -> Tensor:
        """Reshape (batch, token, width) to (batch, head, token, head_dim)."""
        return projected.unflatten(2, (num_heads, -1)).transpose(1, 2)

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the contents of a cache: keys and values, (batch, kv head, token, head_dim)."""
        with torch.no_grad():
            return self.split(self.k_proj(x), self.num_kv_heads), self.split(self.v_proj(x), self.num_kv_heads)

    def weights_and_context(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute attention weights (batch, head, query, key) and the heads' joined context (batch, token, width)."""
        contexts: list[Tensor] = []
        hook = self.out_proj and self.out_proj.register_forward_pre_hook(lambda _, inputs: contexts.append(inputs[0]))
        output, weights = self.module(x, return_weights=True)
        if hook is not None:
            hook.remove()
        return weights, contexts[0] if contexts else output

    def readers(self, x: Tensor) -> tuple[list[list[int]], list[list[int]]]:
        """Change one key head, then one value head, at a time, and find the query heads that react; x is float64.

        Return for each key head the query heads whose attention weights change, for each value head those whose
        context changes. Raise a ValueError if nothing changes at all, so that nothing can be concluded.
        """
        with torch.no_grad():
            weights, context = self.weights_and_context(x)
            by_keys = [changed - weights for changed, _ in self._changed(self.k_proj, x)]
            by_values = [changed - context for _, changed in self._changed(self.v_proj, x)]
        keys = [_large(change.transpose(0, 1)) for change in by_keys]
        values = [_large(change.unflatten(2, (self.num_heads, -1)).movedim(2, 0)) for change in by_values]
        if not any(keys):
            raise ValueError(
                f"module {self.name!r} gives the same weights whatever its keys are: give an x whose tokens differ."
            )
        return keys, values

    def _changed(self, projection: nn.Linear, x: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield attention weights and context with the parameters of one kv head of a projection changed at a time."""
        generator = torch.Generator().manual_seed(0)
        for rows in projection.weight.chunk(self.num_kv_heads):  # (head_dim, d_in), a view of the weight itself
            kept = rows.clone()
            noise = torch.randn(rows.shape, generator=generator, dtype=rows.dtype, device="cpu")
            rows += NOISE * noise.to(rows.device)
            yield self.weights_and_context(x)
            rows.copy_(kept)


def copies_of(modules: Mapping[str, nn.Module], x: Tensor) -> list[ModuleCopy]:
    """Copy modules, after checking that they can be run on x, (batch, token, d_in).

    Raise a ValueError if there is no module, or x has a different shape, fewer than two tokens or no elements; a
    TypeError if modules isn't a dict, a module isn't one of the course's forms, or x isn't floating point.
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
    copies = [ModuleCopy.of(name, module) for name, module in modules.items()]
    for module_copy in copies:
        width = module_copy.q_proj.in_features
        if width != x.shape[2]:
            raise ValueError(f"module {module_copy.name!r} takes tokens of width {width}, but x is {tuple(x.shape)}.")
    return copies


def _large(change: Tensor) -> list[int]:
    """Return the heads in which something changes, from (head, ...)."""
    return (change.abs().flatten(1).amax(dim=1) > CHANGED).nonzero().flatten().tolist()


def _part(name: str, module: nn.Module, part: str, kind: type[Part]) -> Part:
    submodule = getattr(module, part, None)
    if not isinstance(submodule, kind):
        raise TypeError(f"module {name!r} has no {part}: give an attention module of the course's forms.")
    return submodule
