"""Note every PyTorch call while code runs, without changing what is watched."""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Size, Tensor, nn

from course_lib.tracing import FunctionWatch, is_foreign, shape_stride_offset, tensors_in, torch_private

from .call import CallLog, running_state
from .effects import READS, written_by

MAPPED = (
    "record can't look inside torch.vmap or another torch.func transform: record the function itself, on one sample."
)
COMPILED = "{} is compiled, so no line of it runs: record it before torch.compile."
# The innermost module, the outermost module and the nearest frame of an author, for one frame.
Owner = tuple[nn.Module | None, nn.Module | None, FrameType | None]
NO_OWNER: Owner = (None, None, None)
QUESTIONS = {Size, torch.dtype, torch.device}  # the results of x.shape, x.dtype and x.device
is_mapped = torch_private.is_mapped
# id of a code object -> the code object, whether its `self` may be a module, and whether an author wrote it. Python
# would compute the hash of a code object from all its constants each time, and no id is reused while the code is kept.
KINDS: dict[int, tuple[CodeType, bool, bool]] = {}


class Watcher(FunctionWatch):
    """Notes each call of a PyTorch function; slow work is left to the Recording."""

    def __init__(self, stop: FrameType) -> None:
        super().__init__(stop)
        self.log = CallLog()
        self._nested = bool(torch_private.function_modes())
        self._owners: dict[FrameType, Owner] = {stop: NO_OWNER}

    def __torch_function__(  # not `call`, because one function call less makes the recording 3 percent faster
        self, func: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if written := written_by(func, args, kwargs):
            self.log.snapshots.take(tensors_in(written), len(self.log.calls))
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except Exception:
            self.log.failed += tensors_in((args, kwargs or {}))
            raise
        kind = type(result)
        if kind in QUESTIONS:
            return result
        results = (result,) if kind is Tensor else _results_of(func, args, result)
        if results is None:
            return result
        if self._nested:
            with torch_private.without_function_modes():  # an outer recording must not see the calls of the watcher
                self._note(func, args, kwargs or {}, results)
        else:
            self._note(func, args, kwargs or {}, results)
        return result

    def _note(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any], results: tuple[Tensor, ...]) -> None:
        for result in results:
            if is_mapped(result):
                raise ValueError(MAPPED)
        frame = sys._getframe(2)  # the caller of PyTorch; frame 1 is the watcher itself
        module, _, author = self._owners.get(frame) or self._owner_of(frame)
        code, instruction = (None, 0) if author is None else (author.f_code, author.f_lasti)
        for arg in args:
            if type(arg) is list:  # the code may add to its list of heads later
                args = tuple([list(arg) if type(arg) is list else arg for arg in args])
                break
        layouts = tuple(map(shape_stride_offset, results))
        self.log.calls.append((func, args, kwargs, results, layouts, code, instruction, module, running_state()))

    def _owner_of(self, frame: FrameType | None) -> Owner:
        """Find the modules and the author of a frame without a hook: a running module is the `self` of a frame."""
        new: list[FrameType] = []
        while frame is not None and frame not in self._owners:
            new.append(frame)
            frame = frame.f_back
        inner, root, author = NO_OWNER if frame is None else self._owners[frame]
        for frame in reversed(new):
            code = frame.f_code
            _, is_method, is_author = KINDS.get(id(code)) or _kind_of(code)
            if is_method:
                owner = frame.f_locals.get("self")
                if isinstance(owner, nn.Module):
                    inner, root = owner, owner if root is None else root
                    if not any(root is known for known in self.log.roots):
                        self.log.roots.append(root)
            if is_author:  # PyTorch's frames seldom call twice, and keeping a frame takes longer than looking again
                author = frame
                self._owners[frame] = inner, root, author
        return inner, root, author

    def let_go(self) -> None:
        """Drop the frames that ran: they hold the local variables of the recorded code."""
        super().let_go()
        self._owners.clear()


def _results_of(func: Callable[..., Any], args: tuple, result: Any) -> tuple[Tensor, ...] | None:
    """Return the tensors that a call returned or changed, or None if it only asked something, as `x.dim()` does."""
    if isinstance(result, (Tensor, tuple, list)) and (results := tuple(tensors_in(result))):
        return results
    name = getattr(func, "__name__", "")
    if name == "__setitem__":
        return (args[0],)
    return () if name in READS else None


def _kind_of(code: CodeType) -> tuple[CodeType, bool, bool]:
    """Find whether the `self` of some code may be a running module, and whether an author wrote the code."""
    is_method = (
        code.co_argcount > 0 and code.co_name not in torch_private.MODULE_CALLS and code.co_varnames[0] == "self"
    )
    if not is_method and code.co_qualname.startswith(torch_private.COMPILED_CALL):
        raise ValueError(COMPILED.format("A function that is called here"))
    KINDS[id(code)] = code, is_method, not is_foreign(code.co_filename)
    return KINDS[id(code)]
