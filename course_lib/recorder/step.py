"""One tensor that came about in a recorded run, and what was done to get it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from .call import Call
from .source import Place, place_of
from .underneath import Underneath, run_underneath


@dataclass(eq=False)
class Step:
    """One result of one operation.

    Attributes:
        number: its place in the recording, from 0.
        op: the operation in the words of the code: "view", "matmul", "masked_fill"; `x[0]` is "getitem".
        shape, stride: one number an axis; strides in elements.
        offset: elements of the storage before the tensor's first one.
        storage: a small number for the memory it lies in; tensors with the same number share memory.
        dtype: of its elements.
        effect: "view" (no number moved), "copy" (the same numbers in new memory), "in-place" (a tensor was changed
            where it lies) or "compute" (new numbers).
        is_layout: whether numbers got another shape, order or place without being changed.
        inputs: what it was made from: the number of an earlier step, or a name such as "x" or "q_proj.weight".
        users: the numbers of the later steps that read it.
        in_output: whether it is part of what the recorded code gave back.
        read_elsewhere: whether Python read its numbers (`.item()`, `if mask.any()`) or a module or an argument of the
            run still holds it afterwards, as a cache does.
        submodule: name of the innermost module that ran, such as "heads.0.q_proj"; "" is the recorded one itself.
        label: the name that `course_lib.recorder.name` gave it, or None.
        part: (index, count) where one call gave several tensors, or None.
        tensor: the tensor itself, as it is now.
        call: what was called with what.
    """

    number: int
    op: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    storage: int
    dtype: torch.dtype
    effect: str
    is_layout: bool
    inputs: tuple[int | str, ...]
    submodule: str
    part: tuple[int, int] | None
    tensor: Tensor = field(repr=False)
    call: Call = field(repr=False)
    users: tuple[int, ...] = ()
    in_output: bool = False
    read_elsewhere: bool = False
    label: str | None = None
    inside: bool = False  # a line of PyTorch's own that the author's line called, whose name belongs to a later step

    @property
    def used(self) -> bool:
        """Whether anything read the result: a later step, the caller of the recorded code, or somebody else."""
        return bool(self.users) or self.in_output or self.read_elsewhere

    @cached_property
    def _place(self) -> Place:
        return place_of(self.call.code, self.call.instruction)

    @property
    def file(self) -> str:
        """The author's file, or the name that Python gave a notebook's cell; "" if no line of Python made the call."""
        return self._place.file

    @property
    def line(self) -> int:
        """Line number in the file or in the cell; 0 if there is none."""
        return self._place.line

    @property
    def where(self) -> str:
        """ "weight_split.py:88", or "cell:3" for the third line of a notebook's cell."""
        return self._place.where

    @property
    def source(self) -> str:
        """The statement that made the call, blanks folded; "" where no source can be had."""
        return self._place.source

    @property
    def code(self) -> str:
        """The piece of the statement that is this operation: ".transpose(1, 2)", "q_proj(x)", "weights @ values"."""
        return self._place.code

    @property
    def name(self) -> str | None:
        """What the code calls the result: the label, else the variable that it is assigned to, else None."""
        if self.label is not None or self.inside:
            return self.label
        names = self._place.names
        if self.part is None:
            return names[0] or None if len(names) == 1 else None
        return names[self.part[0]] or None if len(names) == self.part[1] else None

    @property
    def title(self) -> str:
        """The shortest way to say which tensor this is: its name, else its code, else the operation."""
        return self.name or (self.op if self.inside else self.code or self.op)

    @cached_property
    def underneath(self) -> tuple[Underneath, ...]:
        """What PyTorch runs for this call, found by running it once more on what it got; the numbers it got stay."""
        return run_underneath(self.call)
