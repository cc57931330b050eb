"""Run a module or a function under a watcher and return what it recorded."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.tracing import last_line, torch_private

from .recording import Recording
from .watcher import COMPILED, MAPPED, Watcher

SCRIPTED = (torch.jit.ScriptModule, torch.jit.ScriptFunction)


def record(module_or_function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Recording:
    """Run `module_or_function(*args, **kwargs)` and record each call of PyTorch with its source line.

    Works with any module or plain function, in training and evaluation, with and without gradients, on every device.
    Recording does not change the module, its mode, the random numbers it draws or the gradient mode. The recording
    keeps every tensor of the run alive.

    `nn.MultiheadAttention` and the fused kernels are one step each; `Recording.expand` looks inside.

    Args:
        module_or_function: what to run.
        args, kwargs: what to run it with.

    Returns:
        Recording, with the result in `.output` and one `Step` per tensor that was made in `.steps`.

    Raises:
        TypeError: module_or_function can't be called.
        ValueError: a compiled or scripted module, or code under torch.vmap or another torch.func transform, because
            there are no lines of Python to watch.
        Exception: any error of the recorded code, with the steps up to that point in the attribute `recording`.

    Example:
        >>> recording = record(lambda x: x.view(6, 2, 2).transpose(0, 1), torch.arange(24.0).view(6, 4))
        >>> [(step.op, step.effect, step.stride) for step in recording.steps]
        [('view', 'view', (4, 2, 1)), ('transpose', 'view', (2, 4, 1))]
    """
    named = list(module_or_function.named_modules()) if isinstance(module_or_function, nn.Module) else []
    _check_recordable(module_or_function, (module for _, module in named))
    watcher = Watcher(stop=sys._getframe())
    try:
        with torch_private.without_compiling(), watcher:
            output = module_or_function(*args, **kwargs)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        steps = Recording(watcher.log, module_or_function, args, kwargs, named, error=message)
        steps.error_line = last_line(error)
        vars(error)["recording"] = steps
        error.add_note(f"Recorded up to here (steps: {len(steps)}), in this error's attribute `recording`.")
        raise
    finally:
        watcher.let_go()
    return Recording(watcher.log, module_or_function, args, kwargs, named, output)


def name(tensor: Tensor, label: str) -> Tensor:
    """Give a tensor a name for recordings and pictures; outside a recording this does nothing.

    Most tensors get their name from an assignment, such as `queries = self.q_proj(x)`.

    Args:
        tensor: any tensor.
        label: its name.

    Returns:
        The tensor itself.

    Raises:
        TypeError: tensor is not a tensor, or label is not text.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"tensor must be a tensor, got {type(tensor).__name__}: name what an operation returned.")
    if not isinstance(label, str):
        raise TypeError(f"label must be text, got {label!r} ({type(label).__name__}).")
    for mode in torch_private.function_modes():
        if isinstance(mode, Watcher):
            mode.log.labels.append((len(mode.log.calls), tensor, label))
    return tensor


def _check_recordable(module_or_function: Any, modules: Iterable[nn.Module]) -> None:
    """Refuse what cannot be called, and what runs without lines of Python to watch, itself or in its modules."""
    if not callable(module_or_function):
        raise TypeError(
            f"module_or_function must be a module or a function, got {type(module_or_function).__name__}: give what "
            "to run first, then its arguments, as in record(module, x)."
        )
    if torch_private.is_made_by_compile(module_or_function):
        raise ValueError(COMPILED.format(type(module_or_function).__name__))
    for item in (module_or_function, *modules):
        if torch_private.is_compiled_in_place(item):
            raise ValueError(COMPILED.format(type(item).__name__))
        if isinstance(item, SCRIPTED):
            raise ValueError(f"{type(item).__name__} is scripted, so no line of it runs: record it before torch.jit.")
    if torch_private.inside_transform():
        raise ValueError(MAPPED)
