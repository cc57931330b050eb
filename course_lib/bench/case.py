"""What is measured: cases that must give the same numbers, and the experiment that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor, nn

FORWARD, BACKWARD = "forward", "forward and backward"


class Case(NamedTuple):
    """One way to the result.

    Attributes:
        name: stands in front of its row.
        run: computes the result.
        leaves: what gradients are taken of, where backward is measured. Put one behind the other they must be equal in
            all cases: a wrapper lists the query weights of all heads, then their key weights, and so on.
        bytes, flops: the least that any form must move and compute forward, or None where no limit is meant.
        cache_bytes: of the keys and values that are there before, or None.
        needs: bytes that it takes for sure; a machine with too little memory leaves it out.
    """

    name: str
    run: Callable[[], Tensor]
    leaves: tuple[Tensor, ...] = ()
    bytes: int | None = None
    flops: int | None = None
    cache_bytes: int | None = None
    needs: int = 0


@dataclass(frozen=True)
class Experiment:
    """Cases that are measured in the same rounds.

    Attributes:
        title: stands above the table.
        dtype: "float32" or "bfloat16".
        cases: the first is what the ratios refer to.
        sizes: by name, as {"batch": 8}.
        direction: FORWARD or BACKWARD, which means both.
        left_out: which cases are missing and why, a sentence each.
        cold: whether caches are emptied before every run, as the other layers of a model would do.
    """

    title: str
    dtype: str
    cases: list[Case]
    sizes: dict[str, int]
    direction: str = FORWARD
    left_out: list[str] = field(default_factory=list)
    cold: bool = False


class Group(NamedTuple):
    """Experiments on one question.

    Attributes:
        name: on the command line.
        about: what it compares, for the list.
        experiments: (device, quick) -> one after the other, built when it is its turn; quick asks for small sizes.
    """

    name: str
    about: str
    experiments: Callable[[str, bool], Iterator[Experiment]]


def draw(device: str, dtype: str, *shapes: tuple[int, ...]) -> list[Tensor]:
    """Random tensors, the same on every device: drawn on the CPU in float32, then moved."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(device, getattr(torch, dtype)) for shape in shapes]


def ready(module: nn.Module, device: str, dtype: str) -> nn.Module:
    """A module on its device, in its dtype, in eval mode, with weights that do not depend on the caller's seed."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.05)
    return module.to(device, getattr(torch, dtype)).eval()


def all_of(cases: list[Case], **fields: object) -> list[Case]:
    """The cases with the same fields set in each, as their leaves or their cost."""
    return [case._replace(**fields) for case in cases]


def core_cost(queries: Tensor, keys: Tensor, values: Tensor, *, causal: bool = False) -> dict[str, int]:
    """The least that attention itself must move and compute.

        bytes = queries, keys and values read once, context written once
        flops = 2 (head_dim + value width) for each pair of a query and a key that it may see, in each head

    Args:
        queries: (batch, head, query, head_dim).
        keys: (batch, kv head, key, head_dim).
        values: (batch, kv head, key, value width).
        causal: whether later keys are hidden; the pairs that they would make need not be computed.

    Returns:
        bytes and flops of one forward pass (a multiplication and an addition are two), as a `Case` takes them.
    """
    batch, num_heads, query_len, head_dim = queries.shape
    key_len, value_dim = values.shape[2:]
    pairs = query_len * key_len - (query_len * (query_len - 1) // 2 if causal else 0)
    context_bytes = batch * num_heads * query_len * value_dim * queries.element_size()
    moved = queries.nbytes + keys.nbytes + values.nbytes + context_bytes
    return {"bytes": moved, "flops": 2 * batch * num_heads * pairs * (head_dim + value_dim)}


def module_cost(module: nn.Module, x: Tensor, cached: int = 0) -> dict[str, int]:
    """The least that a causal attention module of the course must move and compute, projections included.

    Args:
        module: with q_proj, k_proj, v_proj, out_proj, head_dim and value_dim.
        x: (batch, token, d_in).
        cached: tokens whose keys and values are read from a cache.

    Returns:
        bytes (weights, x, cache and output, each once) and flops of one forward pass, as a `Case` takes them.
    """
    batch, num_tokens, _ = x.shape
    weights = sum(each.numel() for each in module.parameters())
    num_heads = module.q_proj.out_features // module.head_dim
    cache = batch * cached * (module.k_proj.out_features + module.v_proj.out_features)
    output = batch * num_tokens * module.out_proj.out_features
    pairs = num_tokens * cached + num_tokens * (num_tokens + 1) // 2
    flops = 2 * batch * (num_tokens * weights + num_heads * pairs * (module.head_dim + module.value_dim))
    return {"bytes": (weights + x.numel() + cache + output) * x.element_size(), "flops": flops}
