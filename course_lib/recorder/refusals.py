"""What can't be recorded, each refused in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

MAPPED = (
    "record can't look inside torch.vmap or another torch.func transform: record the function itself, on one sample."
)
SCRIPTED = (torch.jit.ScriptModule, torch.jit.ScriptFunction)
COMPILED = "{} is compiled, so no line of it runs: record it before torch.compile."


def check_recordable(module_or_function: Any, modules: Iterable[nn.Module]) -> None:
    """Refuse what can't be called, and what runs without a line of Python to watch, itself or in its modules."""
    if not callable(module_or_function):
        raise TypeError(
            f"module_or_function must be a module or a function, got {type(module_or_function).__name__}: give what "
            "to run first, then its arguments, as in record(module, x)."
        )
    if hasattr(module_or_function, "_torchdynamo_orig_callable"):
        raise ValueError(COMPILED.format(type(module_or_function).__name__))
    for item in (module_or_function, *modules):
        if getattr(item, "_compiled_call_impl", None) is not None:
            raise ValueError(COMPILED.format(type(item).__name__))
        if isinstance(item, SCRIPTED):
            raise ValueError(f"{type(item).__name__} is scripted, so no line of it runs: record it before torch.jit.")
    if torch._C._functorch.peek_interpreter_stack() is not None:
        raise ValueError(MAPPED)


def without_compiling() -> AbstractContextManager:
    """Keep torch.compile, if it was ever used, from compiling the recorder itself before it is refused."""
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
