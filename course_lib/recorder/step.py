"""One tensor that a recorded run made, and the operation that made it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from course_lib.tracing import Layout, Statement, map_instances, statement_of

from .aten_ops import AtenOp, aten_ops_of
from .call import Call
from .snapshots import Snapshots


@dataclass(eq=False)
class Step:
    """One result of one operation.

    Attributes:
        number: its index in the recording.
        op: the operation as it is written in the code: "view", "matmul", "masked_fill"; `x[0]` is "getitem".
        shape, stride: one integer per axis; strides in elements.
        offset: elements of the storage before the tensor's first one.
        storage: a small integer for its memory; tensors with the same integer share memory.
        dtype: the dtype of its elements.
        effect: "view" (no element moved), "copy" (the same elements in new memory), "in-place" (an existing tensor was
            changed) or "compute" (new elements).
        is_layout: whether elements got a different shape, order or memory without being changed.
        inputs: what it was made from: the number of an earlier step, or a name such as "x" or "q_proj.weight".
        users: the numbers of the later steps that read it.
        in_output: whether it is part of what the recorded code returned.
        read_elsewhere: whether Python read its elements (`.item()`, `if mask.any()`) or a module or an argument of the
            run still holds it afterwards, as a cache does.
        read_by_failed: whether a call read it that raised an error.
        submodule: name of the innermost module that ran, such as "heads.0.q_proj"; "" is the recorded one itself.
        label: the name that `course_lib.recorder.name` gave it, or None.
        part: (index, count) where one call returned several tensors, or None.
        tensor: the tensor itself, as it is now.
        call: what was called with which arguments.
        when: the number of calls before it.
        layouts: shape, stride, offset, memory and dtype of each tensor among the arguments.
        snapshots: what the memories of the run held before each write.
        inside: whether a later step of the same source line reads it, and so gets the line's name.
        into: of a step in place, the step that made what it wrote into, or its name from before the run; else None.
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
    when: int = field(repr=False)
    layouts: tuple[Layout, ...] = field(repr=False)
    snapshots: Snapshots = field(repr=False)
    users: tuple[int, ...] = ()
    in_output: bool = False
    read_elsewhere: bool = False
    read_by_failed: bool = False
    label: str | None = None
    inside: bool = False
    into: Step | str | None = None

    @property
    def used(self) -> bool:
        """Whether a later step, Python or the caller of the recorded code read the result."""
        return bool(self.users) or self.in_output or self.read_elsewhere or self.read_by_failed

    @cached_property
    def _statement(self) -> Statement:
        return statement_of(self.call.code, self.call.instruction)

    @property
    def file(self) -> str:
        """The author's file, or Python's name for a notebook cell; "" if no line of Python made the call."""
        return self._statement.file

    @property
    def line(self) -> int:
        """Line number in the file or in the cell; 0 if there is none."""
        return self._statement.line

    @property
    def where(self) -> str:
        """ "weight_split.py:88", or "cell:3" for the third line of a notebook's cell."""
        return self._statement.where

    @property
    def source(self) -> str:
        """The statement that made the call, on one line; "" if its source is not available."""
        return self._statement.source

    @property
    def code(self) -> str:
        """The part of the statement that is this operation: ".transpose(1, 2)", "q_proj(x)", "weights @ values"."""
        return self._statement.expression

    @property
    def name(self) -> str | None:
        """The name of the result: its label, the variable that it is assigned to, or the name of what it changed."""
        origin = self._origin
        return origin._own_name if isinstance(origin, Step) else origin

    @property
    def _origin(self) -> Step | str:
        """Of a step that only wrote into a tensor, the step that made or named it, or its name from before the run."""
        step = self
        while step._own_name is None and step.into is not None:
            if isinstance(step.into, str):
                return step.into
            step = step.into
        return step

    @property
    def _own_name(self) -> str | None:
        if self.label is not None or self.inside:
            return self.label
        names = self._statement.names
        index, count = self.part or (0, 1)
        return names[index] or None if len(names) == count else None

    @property
    def written(self) -> str | None:
        """What the step wrote into and returned without a new name: `buf` of `buf[0] = x`; None if that is not so."""
        origin = self._origin
        if self.effect != "in-place" or self._own_name is not None:
            return None
        origin_code = origin.code if isinstance(origin, Step) and origin is not self else None
        line = self._statement.written if self.op == "setitem" else None
        return self.name or line or origin_code or None

    @property
    def title(self) -> str:
        """The shortest text that identifies the tensor: its name, else its code, else the operation."""
        return self.name or self.written or (self.op if self.inside else self.code or self.op)

    @cached_property
    def value(self) -> Tensor:
        """The tensor with the numbers that it had right after the step; those after the run if they were not kept."""
        index, _ = self.part or (0, 1)
        return self.snapshots.at(self.tensor, self.call.layout(index), self.when + 1)

    @cached_property
    def as_it_ran(self) -> Step:
        """The same step with arguments and results as they were then, whatever was written into them later."""
        before, after = {}, []
        for tensor, layout in zip(self.call.tensors, self.layouts, strict=True):
            before[id(tensor)] = self.snapshots.at(tensor, layout, self.when)
        for part, tensor in enumerate(self.call.results):
            after.append(self.snapshots.at(tensor, self.call.layout(part), self.when + 1))
        now = (*self.call.tensors, *self.call.results)
        if all(tensor is other for tensor, other in zip((*before.values(), *after), now, strict=True)):
            return self
        args, kwargs = map_instances(
            Tensor, lambda tensor: before.get(id(tensor), tensor), (self.call.args, self.call.kwargs)
        )
        return replace(self, call=self.call._replace(args=args, kwargs=kwargs, results=tuple(after)))

    @cached_property
    def aten_ops(self) -> tuple[AtenOp, ...]:
        """The ATen operations of this call, found by running it again without changing its arguments."""
        return aten_ops_of(self.call)
