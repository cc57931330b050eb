"""Run code that computes in float32 on purpose, such as a rotation or a norm, in float64 all the same."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.tracing import FunctionWatch, Operation, Trace, map_instances, tensors_in


@contextmanager
def widened() -> Iterator[None]:
    """Read float64 wherever the code says float32, so that no digits are lost and no two dtypes meet."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widening():
            yield
    finally:
        torch.set_default_dtype(default)


def widen_kept_tensors(module: nn.Module) -> None:
    """Put float64 in place of float32 in the tensors that modules keep as plain attributes, as some caches are."""
    wide: dict[Tensor, Tensor] = {}

    def double(kept: Tensor) -> Tensor:
        return wide.setdefault(kept, kept.double()) if kept.dtype == torch.float32 else kept

    for one in module.modules():
        for name, value in list(vars(one).items()):
            if name not in ("_parameters", "_buffers", "_modules") and any(True for _ in tensors_in(value)):
                vars(one)[name] = map_instances(Tensor, double, value)


def rounding_to_float32(trace: Trace) -> list[Operation]:
    """Return the operations that depend on x and round float64 to float32."""
    after = trace.descendants_of_input()
    return [operation for operation in trace.operations if operation.number in after and _rounds(operation)]


def _rounds(operation: Operation) -> bool:
    """Return whether an operation rounds float64 to float32."""
    if operation.name != "_to_copy" or not operation.inputs:
        return False
    return operation.inputs[0].tensor.dtype == torch.float64 and operation.outputs[0].tensor.dtype == torch.float32


class _Widening(FunctionWatch):
    def call(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        if func is Tensor.float:
            func = Tensor.double
        args, kwargs = map_instances(torch.dtype, _wide, (args, kwargs))
        return func(*args, **kwargs)


def _wide(dtype: torch.dtype) -> torch.dtype:
    return {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(dtype, dtype)
