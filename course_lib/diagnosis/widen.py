"""Lets a function compute in 64 bits although the tensors around it have 32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Widened(TorchFunctionMode):
    """Every tensor that was there before takes part as a copy in 64 bits; what the code itself makes stays as it is.

    A module can be copied and converted; the tensors that a function found around itself can't be, and a matrix of
    32 bits does not multiply x of 64.
    """

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.made = {id(x)}
        self.wide: dict[int, Tensor] = {}
        self.alive: list[Tensor] = [x]  # an id is only a name as long as its tensor lives

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") not in ("__get__", "__set__"):
            args, kwargs = self._widened(args), {key: self._widened(one) for key, one in kwargs.items()}
        result = func(*args, **kwargs)
        self._note(result)
        return result

    def _widened(self, thing: Any) -> Any:
        if isinstance(thing, Tensor):
            if id(thing) in self.made or not thing.is_floating_point() or thing.dtype == torch.float64:
                return thing
            if id(thing) not in self.wide:
                self.alive.append(thing)
                self.wide[id(thing)] = thing.detach().double()
            return self.wide[id(thing)]
        if type(thing) in (tuple, list):
            return type(thing)(self._widened(part) for part in thing)
        return thing

    def _note(self, thing: Any) -> None:
        if isinstance(thing, Tensor):
            self.made.add(id(thing))
            self.alive.append(thing)
        elif isinstance(thing, (tuple, list)):
            for part in thing:
                self._note(part)
