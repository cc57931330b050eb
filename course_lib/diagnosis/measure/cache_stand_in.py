"""A stand-in for a cache of a class that the doctor does not know, which shows whether code keeps something in it."""

import re
from typing import Any, Self

import torch
from torch import Tensor

from course_lib.tracing import tensors_in

STORES = re.compile(r"updat|append|extend|insert|add|writ|stor|put|push|cat|save|set", re.I)  # what a method does
PATIENCE = 1000  # times that code may ask for an attribute: a loop may wait for what only a tensor has
JOINS = ("cat", "concat", "concatenate", "stack", "hstack", "vstack")


class StandIn(int):
    """A cache, one of its attributes or of its items: a number, that of the tokens before, which can be called.

    A method that stores tensors joins them to those that it got before, along the axis of the tokens.

    Attributes:
        keeps: whether tensors were stored in it.
        takes_pairs: whether it was given two tensors alike, as keys and values are.
        joins: whether tensors would be joined to it.
    """

    _root: "StandIn"
    _name: str
    keeps: bool
    takes_pairs: bool
    joins: bool
    piece: slice
    tokens: int
    _held: dict[tuple, Tensor]
    _asked: int

    def __new__(cls, root: "StandIn | None" = None, name: str = "") -> Self:
        made = super().__new__(cls, 0 if root is None else root.tokens)
        made._root, made._name = root or made, name
        if root is None:
            made.keeps, made.takes_pairs, made.joins = False, False, False
            made.piece, made.tokens, made._held, made._asked = slice(0, 0), 0, {}, 0
        return made

    def begin(self, piece: slice) -> None:
        """Say which tokens come next."""
        self.piece, self.tokens = piece, piece.start

    def __getattr__(self, name: str) -> "StandIn":
        if name.startswith("__"):
            raise AttributeError(name)
        root = self.__dict__["_root"]
        root._asked += 1
        if root._asked > PATIENCE:
            raise RuntimeError("a stand-in is no tensor")
        return StandIn(root, name)

    def __getitem__(self, index: Any) -> "StandIn":
        return StandIn(self._root)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._root.keeps = self._root.keeps or any(True for _ in tensors_in(value))
        raise TypeError("a stand-in keeps only what a method stores")

    def __iter__(self) -> Any:
        return iter((StandIn(self._root), StandIn(self._root)))  # keys and values

    def __len__(self) -> int:
        return int(self)

    def __bool__(self) -> bool:
        return True

    def __call__(self, *given: Any, **named: Any) -> Any:
        tensors = list(tensors_in([given, named]))
        if not tensors:
            return StandIn(self._root)
        of_tensor = hasattr(Tensor, self._name) or isinstance(getattr(int, self._name, None), type)
        certain = bool(STORES.search(self._name)) and not of_tensor
        pair = len(tensors) == 2 and tensors[0].shape[:-1] == tensors[1].shape[:-1]  # keys and values, or others
        if not certain and not (pair and (not self._name or STORES.search(self._name))):
            raise TypeError(f"a stand-in has no method {self._name!r}")
        self._root.keeps, self._root.takes_pairs = self._root.keeps or certain, self._root.takes_pairs or pair
        layer = tuple(one for one in (*given, *named.values()) if type(one) is int)
        joined = tuple(self._root._joined((self._name, layer, at), one) for at, one in enumerate(tensors))
        self._root.tokens = self._root.piece.stop
        return joined[0] if len(joined) == 1 else joined

    def _joined(self, key: tuple, new: Tensor) -> Tensor:
        before = self._held.get(key)
        if before is not None:
            count = self.piece.stop - self.piece.start
            sizes = enumerate(zip(before.shape, new.shape, strict=True))
            new = torch.cat([before, new], next(at for at, pair in sizes if pair == (self.piece.start, count)))
        self._held[key] = new
        return new

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if getattr(func, "__name__", "") in JOINS:
            for one in args[0] if isinstance(args[0], (tuple, list)) else ():
                if isinstance(one, StandIn):
                    one._root.joins = True
        raise TypeError("a stand-in is no tensor")
