"""The graph of a run, with its operations, the tensors between them, and the dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from .source_line import SourceLine
from .statement import Statement, line_at, statement_of
from .tensors import instances_in
from .torch_private import OpOverload, is_mutable


@dataclass(eq=False)
class Value:
    """A tensor of the run.

    Attributes:
        number: index among the values.
        made_by: number of the operation that returned it, or None for x, parameters and constants.
        tensor: a copy of it right after it was made, or at its first use if it existed before the run.
        storage: identity of its memory.
        version: how often that memory had been written to.
        offset, strides: where its elements are in that memory, in elements.
    """

    number: int
    made_by: int | None
    tensor: Tensor = field(repr=False)
    storage: int = 0
    version: int = 0
    offset: int = 0
    strides: tuple[int, ...] = ()

    @cached_property
    def elements(self) -> Tensor:
        """The index of each of its elements in its memory."""
        index = torch.tensor(self.offset)
        for size, stride in zip(self.tensor.shape, self.strides, strict=True):
            index = index[..., None] + torch.arange(size) * stride
        return index

    def overlaps(self, other: Value) -> bool:
        """Return whether some elements of two values in the same memory are the same, unlike the parts of a split."""
        unknown = any(len(value.strides) != value.tensor.dim() for value in (self, other))  # as of a sparse tensor
        if unknown or self.tensor.dtype != other.tensor.dtype:
            return True
        return bool(torch.isin(self.elements, other.elements).any())


@dataclass(eq=False)
class Operation:
    """One ATen operation; a Linear, an `@` and an einsum all become `mm` or `bmm`, so style does not matter.

    Attributes:
        number: index among the operations.
        name: "bmm", "add_", "_softmax".
        func: the operator to call to run it again.
        args, kwargs: with a `Value` in place of each tensor.
        outputs: the values it returned; one that it changed in place is the same tensor as an earlier value.
        frames: the author's code objects and the instructions in them that caused it, the innermost first.
    """

    number: int
    name: str
    func: OpOverload
    args: tuple
    kwargs: dict[str, Any]
    outputs: tuple[Value, ...]
    frames: tuple[tuple[CodeType, int], ...]

    @property
    def code(self) -> CodeType | None:
        """The innermost function of the author."""
        return self.frames[0][0] if self.frames else None

    @cached_property
    def statement(self) -> Statement:
        """The innermost statement of the author."""
        return statement_of(*self.frames[0]) if self.frames else Statement()

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The author's statements that led to it, the innermost first."""
        return tuple(statement_of(*frame) for frame in self.frames)

    @property
    def outermost_statement(self) -> Statement:
        """The statement of the traced forward itself."""
        return statement_of(*self.frames[-1]) if self.frames else Statement()

    def statement_in(self, code: CodeType | None) -> Statement:
        """Return the statement in a function that led to it, or the outermost statement if the function did not."""
        in_code = [frame for frame in self.frames if frame[0] is code]
        return statement_of(*(in_code or self.frames)[-1]) if self.frames else Statement()

    @cached_property
    def where(self) -> SourceLine | None:
        """The innermost line of the author."""
        return line_at(self.statement)

    def by(self, code: CodeType | None) -> bool:
        """Return whether a function, or a comprehension in it, ran it without calling another one of the author's."""
        codes = [code for code, _ in self.frames if code is not None]
        named = [code for code in codes if not code.co_name.startswith("<")]
        if code is None or not codes or codes[-1].co_filename != code.co_filename:
            return False
        return codes == [code] or named == [code] or (not named and code not in codes)

    @property
    def in_place(self) -> bool:
        """Whether it changed its first argument, as the underscore in its name says."""
        return self.name.endswith("_") and not self.name.endswith("__")

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        """The values among its arguments."""
        return tuple(instances_in(Value, (self.args, self.kwargs)))

    @cached_property
    def input_indices(self) -> frozenset[int]:
        """The index of each of these values."""
        return frozenset(value.number for value in self.inputs)

    def __repr__(self) -> str:
        return f"{self.number} {self.name} {self.where}"


@dataclass(eq=False)
class ModuleCall:
    """One call of a module.

    Attributes:
        module: the module.
        outer: the call that it was made in, or None.
        first, last: its operations are those from `first` up to, without, `last`.
        inputs: position or name of each tensor argument -> its value.
        output: the tensor that it returned, or None if it returned anything else.
        outputs: all tensors in what it returned.
    """

    module: nn.Module
    outer: ModuleCall | None
    first: int
    last: int = 0
    inputs: dict[int | str, Value] = field(default_factory=dict)
    output: Value | None = None
    outputs: tuple[Value, ...] = ()

    def chain(self) -> Iterator[ModuleCall]:
        """Yield the call itself and those around it, from the inside outwards."""
        call: ModuleCall | None = self
        while call is not None:
            yield call
            call = call.outer


@dataclass(eq=False)
class Trace:
    """The operations of one run in order, with copies of their tensors.

    Attributes:
        operations: in order.
        values: every tensor.
        x: the input.
        output: what the code returned, or None if it raised or returned anything but a tensor.
        caller: code that called the traced code and is not part of it, although its lines ran.
        calls: the calls of modules in the order in which they began, if they were asked for.
    """

    operations: list[Operation]
    values: list[Value]
    x: Value
    output: Value | None
    caller: CodeType | None = None
    calls: tuple[ModuleCall, ...] = ()
    _writers_of_value: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def writers(self) -> dict[int, list[int]]:
        """Storage -> the operations that wrote into it."""
        writers: dict[int, list[int]] = {}
        for operation in self.operations:
            if operation.in_place and operation.outputs:
                writers.setdefault(operation.outputs[0].storage, []).append(operation.number)
        return writers

    @cached_property
    def written_leaves(self) -> frozenset[int]:
        """The index of each input value whose memory is written to."""
        leaves = (value for value in self.values if value.made_by is None)
        return frozenset(leaf.number for leaf in leaves if leaf.storage in self.writers)

    @cached_property
    def never_skipped(self) -> set[int]:
        """The operations that every replay runs: those on memory that is written to, or all if any is random."""
        if any(torch.Tag.nondeterministic_seeded in operation.func.tags for operation in self.operations):
            return set(range(len(self.operations)))
        return {
            operation.number
            for operation in self.operations
            if is_mutable(operation.func)
            or any(value.storage in self.writers for value in (*operation.inputs, *operation.outputs))
        }

    def ancestors(self, values: Iterable[Value]) -> set[int]:
        """Return the operations that any of these values depends on."""
        waiting = [(value, len(self.operations)) for value in values]
        visited: set[int] = set()
        while waiting:
            for number in self.writers_of(*waiting.pop()):
                if number not in visited:
                    visited.add(number)  # what is written into its inputs later does not count
                    waiting.extend((value, number) for value in self.operations[number].inputs)
        return visited

    def writers_of(self, value: Value, before: int) -> list[int]:
        """Return the operations before a given one that computed a value or wrote into its elements."""
        producers = [] if value.made_by is None else [value.made_by]
        return producers + [number for number in self._writers_into(value) if number < before]

    def _writers_into(self, value: Value) -> list[int]:
        if value.storage not in self.writers:
            return []
        if value.number not in self._writers_of_value:
            written = ((number, self.operations[number].outputs[0]) for number in self.writers[value.storage])
            self._writers_of_value[value.number] = [number for number, result in written if value.overlaps(result)]
        return self._writers_of_value[value.number]

    def descendants(self, start: set[int]) -> set[int]:
        """Return the operations in `start` and all that depend on their results."""
        visited = set(start)
        for operation in self.operations:
            if any(n in visited for value in operation.inputs for n in self.writers_of(value, operation.number)):
                visited.add(operation.number)
        return visited

    def descendants_of_input(self) -> set[int]:
        """Return the operations that depend on x, including those that only read its shape."""
        readers = [op for op in self.operations if any(value.storage == self.x.storage for value in op.inputs)]
        return self.descendants({operation.number for operation in readers})
