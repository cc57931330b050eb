"""Lets a function compute on copies of the tensors around it, in 64 bits as soon as x is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class OnCopies(TorchFunctionMode):
    """Every tensor that was there before takes part as a copy; what the code itself makes stays as it is.

    A module can be copied and converted. The tensors that a function found around itself are copied as they come up:
    it must not change them, and a matrix of 32 bits does not multiply x of 64.
    """

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self.made = {id(x)}
        self.copies: dict[int, Tensor] = {}
        self.wide = x.dtype == torch.float64
        self.alive: list[Tensor] = [x]  # an id is only a name as long as its tensor lives

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        result = func(*self._copied(args), **{key: self._copied(one) for key, one in (kwargs or {}).items()})
        self._note(result)
        return result

    def _copied(self, thing: Any) -> Any:
        if isinstance(thing, Tensor):
            if id(thing) in self.made:
                return thing
            if id(thing) not in self.copies:
                self.alive.append(thing)
                copy = thing.detach().cpu().clone()
                self.copies[id(thing)] = copy.double() if self.wide and copy.is_floating_point() else copy
            return self.copies[id(thing)]
        if type(thing) in (tuple, list):
            return type(thing)(self._copied(part) for part in thing)
        return thing

    def _note(self, thing: Any) -> None:
        if isinstance(thing, Tensor):
            self.made.add(id(thing))
            self.alive.append(thing)
        elif isinstance(thing, (tuple, list)):
            for part in thing:
                self._note(part)
