"""Runs a module or a function under a watcher and gives back what it saw."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from .recording import Recording
from .refusals import check_recordable, without_compiling
from .watcher import Watcher


def record(module_or_function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Recording:
    """Run `module_or_function(*args, **kwargs)` and keep what PyTorch was asked to do, line by line.

    Works with any module or plain function, in training and evaluation, with and without gradients, on every device.
    The module, its mode, the random numbers it draws and the gradient mode are as without recording. The recording
    holds every tensor of the run; they are freed with it.

    `nn.MultiheadAttention` and the fused kernels are one step each; `Recording.unfold` looks inside.

    Args:
        module_or_function: what to run.
        args, kwargs: what to run it with.

    Returns:
        Recording, with the result in `.output` and one `Step` for each tensor that came about in `.steps`.

    Raises:
        TypeError: something that can't be called.
        ValueError: a compiled or scripted module, or code under torch.vmap or another torch.func transform: there is
            no line of Python to watch.
        Exception: whatever the recorded code raises, with the steps up to there in the attribute `recording`.

    Example:
        >>> recording = record(lambda x: x.view(6, 2, 2).transpose(0, 1), torch.arange(24.0).view(6, 4))
        >>> [(step.op, step.effect, step.stride) for step in recording.steps]
        [('view', 'view', (4, 2, 1)), ('transpose', 'view', (2, 4, 1))]
    """
    named = list(module_or_function.named_modules()) if isinstance(module_or_function, nn.Module) else []
    check_recordable(module_or_function, (module for _, module in named))
    watcher = Watcher(stop=sys._getframe())
    try:
        with without_compiling(), watcher:
            output = module_or_function(*args, **kwargs)
    except Exception as error:
        steps = Recording(
            watcher.run, module_or_function, args, kwargs, named, error=f"{type(error).__name__}: {error}"
        )
        error.recording = steps
        error.add_note(f"Recorded up to here (steps: {len(steps)}), in this error's attribute `recording`.")
        raise
    finally:
        watcher.forget_frames()
    return Recording(watcher.run, module_or_function, args, kwargs, named, output)


def name(tensor: Tensor, label: str) -> Tensor:
    """Give a tensor a name for the recordings and pictures; outside a recording this does nothing.

    Most names need no help: `queries = self.q_proj(x)` names its result `queries`.

    Args:
        tensor: any tensor.
        label: what to call it.

    Returns:
        The tensor itself.

    Raises:
        TypeError: tensor that is none, or a label that is no text.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"tensor must be a tensor, got {type(tensor).__name__}: name what an operation gave back.")
    if not isinstance(label, str):
        raise TypeError(f"label must be text, got {label!r} ({type(label).__name__}).")
    for mode in _get_current_function_mode_stack():
        if isinstance(mode, Watcher):
            mode.run.labels.append((len(mode.run.calls), tensor, label))
    return tensor
