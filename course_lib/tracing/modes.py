"""Base classes of everything that watches PyTorch while code runs."""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from .source_line import is_foreign
from .torch_private import OpOverload, TorchDispatchMode

DROPOUTS = (F.dropout, torch.dropout, F.alpha_dropout)


class _Watch:
    """Holds tensors and finds the author's frames; the frame `stop` and its callers are not part of the run."""

    def __init__(self, stop: FrameType | None = None) -> None:
        super().__init__()
        self.stop = stop
        self._held: list[Tensor] = []

    def hold(self, tensor: Tensor) -> int:
        """Keep a tensor alive, so that Python gives its id to no other object, and return the id."""
        self._held.append(tensor)
        return id(tensor)

    def author_frames(self) -> Iterator[FrameType]:
        """Yield the frames of the author's code that lead to the watched call, the innermost one first."""
        frame = sys._getframe(1)
        while frame is not None and frame is not self.stop:
            if not is_foreign(frame.f_code.co_filename):
                yield frame
            frame = frame.f_back

    def let_go(self) -> None:
        """Drop the tensors and the frame, which holds the local variables of the watched code."""
        self.stop = None
        self._held.clear()


class FunctionWatch(_Watch, TorchFunctionMode):
    """Sees every call of a PyTorch function as the code writes it: `view`, `matmul`, `F.dropout`."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run a call and return the result for the watched code."""
        return func(*args, **kwargs)


class WithoutDropout(FunctionWatch):
    """Sets the probability of every dropout to 0."""

    def call(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run a call, unless it is a dropout."""
        if func is F.scaled_dot_product_attention:
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs = {name: 0.0 if name == "dropout_p" else value for name, value in kwargs.items()}
        elif func in DROPOUTS:
            return args[0] if args else kwargs["input"]
        return func(*args, **kwargs)


class DispatchWatch(_Watch, TorchDispatchMode):
    """Sees every ATen operation that PyTorch's kernels are asked for: `mm`, `_softmax`, `clone`."""

    supports_higher_order_operators = True  # flex_attention is one

    def __torch_dispatch__(
        self, func: OpOverload, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return self.call(func, args, kwargs or {})

    def call(self, func: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run an operation and return the result for the watched code, or `NotImplemented` to leave it to PyTorch."""
        return func(*args, **kwargs)


# PyTorch wraps this method so that it is never compiled; importing the compiler at the first call takes two seconds.
DispatchWatch.__torch_dispatch__ = getattr(
    DispatchWatch.__torch_dispatch__, "__wrapped__", DispatchWatch.__torch_dispatch__
)
