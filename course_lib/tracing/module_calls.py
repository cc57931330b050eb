"""Note the calls of modules while code runs: what each was given, and which operations ran inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from .graph import ModuleCall, Value
from .tensors import tensors_in


@contextmanager
def noting_calls(now: Callable[[], int], value_of: Callable[[Tensor], Value]) -> Iterator[list[ModuleCall]]:
    """Note each call of a module in this context.

    Args:
        now: returns the number of operations so far.
        value_of: returns the value of a tensor.
    """
    calls: list[ModuleCall] = []
    running: list[ModuleCall] = []

    def before(module: nn.Module, args: Any) -> None:
        running.append(ModuleCall(module, running[-1] if running else None, now()))
        calls.append(running[-1])

    def after(module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        call = running.pop()
        call.last = now()
        arguments = {**dict(enumerate(args)), **kwargs}
        call.inputs = {name: value_of(value) for name, value in arguments.items() if isinstance(value, Tensor)}
        call.output = value_of(output) if isinstance(output, Tensor) else None
        call.outputs = tuple(map(value_of, tensors_in(output)))

    hooks = register_module_forward_pre_hook(before), register_module_forward_hook(after, with_kwargs=True)
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()
