"""Run fused attention as single operations, so that a trace sees its scores and weights."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.backends import mha, opt_einsum
from torch.nn.attention import SDPBackend, sdpa_kernel

from .gradients import without_gradients
from .modes import DispatchWatch
from .torch_private import (
    OpOverload,
    dense_flex_attention,
    operation_name,
    sdpa_in_single_operations,
    signature_of,
    without_compiling,
    without_modes,
)

VIEW, CLONE = torch.ops.aten.view.default, torch.ops.aten.clone.default


def is_fused_attention(operation: Any) -> bool:
    """Return whether an operation is a kernel of scaled_dot_product_attention, or flex_attention."""
    return operation_name(operation).startswith("_scaled_dot_product_") or operation_name(operation) == "flex_attention"


def unfused_attention(operation: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Compute in single operations what a fused kernel does; of its results, only the first is meant to be used."""
    if operation_name(operation) == "flex_attention":
        return dense_flex_attention(*args, **kwargs)
    names, num_results = signature_of(operation)
    arguments = dict(zip(names, args, strict=False)) | kwargs
    output = sdpa_in_single_operations(
        arguments["query"],
        arguments["key"],
        arguments["value"],
        arguments.get("attn_mask", arguments.get("attn_bias")),
        arguments.get("dropout_p", 0.0),
        arguments.get("is_causal", False),
        scale=arguments.get("scale"),
    )[0]
    return (output, *(torch.zeros(()) for _ in range(num_results - 1)))


def _can_be_viewed(tensor: Tensor, shape: list[int]) -> bool:
    """Return whether a tensor has a view of a shape without a copy, or of no shape at all."""
    if tensor.is_contiguous():
        return True
    try:
        with without_modes():
            tensor.view(shape)
    except RuntimeError as error:
        return "stride" not in str(error)
    return True


class SingleOperations(DispatchWatch):
    """Sees every ATen operation, and in place of fused attention those that it consists of."""

    def __init__(self, stop: FrameType | None = None) -> None:
        super().__init__(stop)
        self._inside_kernel = 0

    def call(self, func: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation, or the single operations of fused attention; code may choose its kernel itself."""
        if self._inside_kernel:  # where PyTorch no longer takes matmul and others apart
            with self:
                results = func.decompose(*args, **kwargs)
            if results is not NotImplemented:
                return results
        if is_fused_attention(func):
            return self._unfused(func, args, kwargs)
        if func is VIEW and not _can_be_viewed(*args):
            # A kernel leaves its result in the layout of the queries, and code may rely on that; these steps do not.
            args = (self.see(CLONE, args[:1], {"memory_format": torch.contiguous_format}), *args[1:])
        return self.see(func, args, kwargs)

    def see(self, func: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run a single operation and return the result for the watched code."""
        return func(*args, **kwargs)

    def _unfused(self, func: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        self._inside_kernel += 1
        try:
            with self:
                return unfused_attention(func, args, kwargs)
        finally:
            self._inside_kernel -= 1


@contextmanager
def unfused() -> Iterator[None]:
    """Turn fused kernels and fast paths off, so that everything runs as single operations."""
    fast_path = mha.get_fastpath_enabled()
    with (
        without_compiling(),
        _causal_biases_unwatched(),
        without_gradients(),
        sdpa_kernel(SDPBackend.MATH),
        opt_einsum.flags(enabled=False) if opt_einsum.enabled else nullcontext(),  # it can't be turned off twice
    ):
        mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            mha.set_fastpath_enabled(fast_path)


@contextmanager
def _causal_biases_unwatched() -> Iterator[None]:
    """Create PyTorch's causal biases outside of every mode, because they cannot be created under a mode."""
    module = sys.modules.get("torch.nn.attention.bias")
    if module is None or "__new__" in vars(module.CausalBias):
        yield
        return

    def made(cls: type, *args: Any) -> Tensor:
        with without_modes():
            return Tensor.__new__(cls, *args)

    module.CausalBias.__new__ = made
    try:
        yield
    finally:
        del module.CausalBias.__new__
