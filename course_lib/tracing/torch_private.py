"""Collect every private name of PyTorch in one file, which may need changes for a new release.

Tried on PyTorch 2.6, 2.11 and 2.13.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.overrides
import torch.utils._python_dispatch
import torch.utils._pytree
from torch import Tensor

OpOverload = torch._ops.OpOverload  # an ATen operation such as torch.ops.aten.mm.default
TorchDispatchMode = torch.utils._python_dispatch.TorchDispatchMode
# A context in which no TorchDispatchMode and no TorchFunctionMode sees an operation.
without_modes = torch.utils._python_dispatch._disable_current_modes
# Returns the TorchFunctionModes that are entered.
function_modes = torch.overrides._get_current_function_mode_stack
# The composite behind scaled_dot_product_attention, made of matrix products and softmax.
sdpa_in_single_operations = torch.ops.aten._scaled_dot_product_attention_math.default.decompose
tree_leaves = torch.utils._pytree.tree_leaves
functorch = getattr(torch._C, "_functorch")  # noqa: B009 - a module that the stubs of torch._C do not name
# Returns whether a tensor stands for a sample under torch.vmap or another torch.func transform.
is_mapped = functorch.is_functorch_wrapped_tensor
# A context in which no TorchFunctionMode sees a call.
without_function_modes = torch._C.DisableTorchFunction
# Returns whether autocast is on for any device.
any_autocast = torch._C._is_any_autocast_enabled
# The methods between a module and its forward, and the class whose methods run what torch.compile made.
MODULE_CALLS = ("_call_impl", "_wrapped_call_impl")
COMPILED_CALL = "_TorchDynamoContext."


def inside_transform() -> bool:
    """Return whether code runs inside torch.vmap, torch.func.grad or another transform."""
    return functorch.peek_interpreter_stack() is not None


def is_made_by_compile(function: Any) -> bool:
    """Return whether a function or module is a result of torch.compile."""
    return hasattr(function, "_torchdynamo_orig_callable")


def is_compiled_in_place(module: Any) -> bool:
    """Return whether `module.compile()` was called."""
    return getattr(module, "_compiled_call_impl", None) is not None


def without_compiling() -> AbstractContextManager:
    """Keep torch.compile, if it was ever used, from compiling what runs in this context."""
    compiles = "torch._dynamo" in sys.modules or "torch.nn.attention.flex_attention" in sys.modules
    return torch.compiler.set_stance("force_eager") if compiles else nullcontext()


def dense_flex_attention(*args: Any, **kwargs: Any) -> Any:
    """Run flex_attention as PyTorch's own eager code does, with all scores in one tensor."""
    from torch._higher_order_ops.flex_attention import sdpa_dense

    return sdpa_dense(*args, **kwargs)


def storage_of(tensor: Tensor) -> int:
    """Return an identity of the memory of a tensor, unique as long as the tensor lives."""
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):  # a sparse tensor has no storage of its own
        return id(tensor)


def operation_name(operation: OpOverload) -> str:
    """Return the name of an ATen operation without namespace and overload: "bmm", "add_", "_softmax"."""
    packet = getattr(operation, "overloadpacket", None)
    return operation.name() if packet is None else packet.__name__  # flex_attention is an operation of another kind


def signature_of(operation: OpOverload) -> tuple[list[str], int]:
    """Return the names of an ATen operation's arguments, and how many results it has."""
    schema = operation._schema
    return [argument.name for argument in schema.arguments], len(schema.returns)


def is_mutable(operation: OpOverload) -> bool:
    """Return whether an ATen operation changes one of its arguments."""
    return operation._schema.is_mutable
