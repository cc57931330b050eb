"""Notes every PyTorch operation while code runs, leaving no trace in what it watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from .call import Run, place_in_memory, running_state, tensors_in
from .effects import READS
from .refusals import COMPILED, MAPPED

# Files whose lines aren't the author's own: an operation is noted on the line that called into them.
TORCH_FOLDER = Path(torch.__file__).parent
FOREIGN = tuple(f"{folder}{os.sep}" for folder in (TORCH_FOLDER, Path(__file__).parent, TORCH_FOLDER.parent / "einops"))
COMPILER = ("_dynamo/eval_frame.py", "_dynamo\\eval_frame.py")  # runs what torch.compile made
CALLERS = ("_call_impl", "_wrapped_call_impl")  # what stands between a module and its forward
is_mapped = torch._C._functorch.is_functorch_wrapped_tensor


class Watcher(TorchFunctionMode):
    """Notes each call of PyTorch's own functions: cheap things only, everything else waits for the Recording."""

    def __init__(self, stop: FrameType) -> None:
        super().__init__()
        self.run = Run()
        self._nested = bool(_get_current_function_mode_stack())
        self._stop = stop  # frames beyond this one aren't part of what is recorded
        self._foreign: dict[str, bool] = {}
        self._owners: dict[FrameType | None, tuple[nn.Module | None, nn.Module | None]] = {None: (None, None)}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **kwargs) if kwargs else func(*args)
        if isinstance(result, Tensor):
            results: tuple[Tensor, ...] = (result,)
        elif isinstance(result, (tuple, list)) and type(result) is not torch.Size:
            results = tuple(tensors_in(result))
        else:
            results = ()
        if not results:
            name = getattr(func, "__name__", "")
            if name == "__setitem__":
                results = (args[0],)
            elif name not in READS:
                return result  # a question such as x.shape
        if self._nested:
            with torch._C.DisableTorchFunction():  # an outer recording must not see what this one looks at
                self._note(func, args, kwargs or {}, results)
        else:
            self._note(func, args, kwargs or {}, results)
        return result

    def _note(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any], results: tuple[Tensor, ...]) -> None:
        for tensor in results:
            if is_mapped(tensor):
                raise ValueError(MAPPED)
        frame = sys._getframe(2)
        module = self._innermost_module(frame)
        while frame is not None and frame is not self._stop and self._is_foreign(frame.f_code.co_filename):
            frame = frame.f_back
        code, instruction = (None, 0) if frame is None or frame is self._stop else (frame.f_code, frame.f_lasti)
        places = tuple(map(place_in_memory, results))
        self.run.calls.append((func, args, kwargs, results, places, code, instruction, module, running_state()))

    def _is_foreign(self, file: str) -> bool:
        foreign = self._foreign.get(file)
        if foreign is None:
            if file.endswith(COMPILER):
                raise ValueError(COMPILED.format("A function that is called here"))
            foreign = self._foreign[file] = file.startswith((*FOREIGN, "<frozen"))
        return foreign

    def _innermost_module(self, frame: FrameType | None) -> nn.Module | None:
        """Find the module whose method runs, without a hook: it is the `self` of a frame on the way out."""
        new = []
        while frame is not self._stop and frame not in self._owners:
            self._is_foreign(frame.f_code.co_filename)
            new.append(frame)
            frame = frame.f_back
        inner, root = self._owners.get(frame, (None, None))
        for frame in reversed(new):
            code = frame.f_code
            if code.co_argcount and code.co_varnames[0] == "self" and code.co_name not in CALLERS:
                owner = frame.f_locals.get("self")
                if isinstance(owner, nn.Module):
                    inner, root = owner, owner if root is None else root
                    if not any(root is known for known in self.run.roots):
                        self.run.roots.append(root)
            self._owners[frame] = inner, root
        return inner

    def forget_frames(self) -> None:
        """Let go of the frames that ran: they hold the local variables of the recorded code."""
        self._owners.clear()
        del self._stop
