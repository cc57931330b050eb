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
COMPILER = "_TorchDynamoContext."  # its methods run what torch.compile made; DisableContext runs what it leaves alone
CALLERS = ("_call_impl", "_wrapped_call_impl")  # what stands between a module and its forward
is_mapped = torch._C._functorch.is_functorch_wrapped_tensor


class _Foreign(dict[str, bool]):
    """Whether the lines of a file are PyTorch's or ours, so that an author's line called them."""

    def __missing__(self, file: str) -> bool:
        self[file] = file.startswith((*FOREIGN, "<frozen"))
        return self[file]


class Watcher(TorchFunctionMode):
    """Notes each call of PyTorch's own functions: cheap things only, everything else waits for the Recording."""

    def __init__(self, stop: FrameType) -> None:
        super().__init__()
        self.run = Run()
        self._nested = bool(_get_current_function_mode_stack())
        self._foreign = _Foreign()
        nobody = (None, None, None)
        self._owners = {None: nobody, stop: nobody}  # frames beyond `stop` aren't part of what is recorded

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
        module, _, author = self._owners.get(frame) or self._own(frame)
        code, instruction = (None, 0) if author is None else (author.f_code, author.f_lasti)
        if list in map(type, args):  # the code may add to its list of heads later
            args = tuple(list(arg) if type(arg) is list else arg for arg in args)
        places = tuple(map(place_in_memory, results))
        self.run.calls.append((func, args, kwargs, results, places, code, instruction, module, running_state()))

    def _own(self, frame: FrameType | None) -> tuple[nn.Module | None, nn.Module | None, FrameType | None]:
        """Find whose a frame is: (innermost module, outermost module, nearest frame of an author), without a hook.

        A module that runs is the `self` of a frame on the way out.
        """
        new = []
        while frame not in self._owners:
            new.append(frame)
            frame = frame.f_back
        inner, root, author = self._owners[frame]
        for frame in reversed(new):
            code = frame.f_code
            if code.co_argcount and code.co_name not in CALLERS and code.co_varnames[0] == "self":
                owner = frame.f_locals.get("self")
                if isinstance(owner, nn.Module):
                    inner, root = owner, owner if root is None else root
                    if not any(root is known for known in self.run.roots):
                        self.run.roots.append(root)
            elif code.co_qualname.startswith(COMPILER):
                raise ValueError(COMPILED.format("A function that is called here"))
            if not self._foreign[code.co_filename]:
                author = frame
            self._owners[frame] = inner, root, author
        return inner, root, author

    def forget_frames(self) -> None:
        """Let go of the frames that ran: they hold the local variables of the recorded code."""
        self._owners.clear()
