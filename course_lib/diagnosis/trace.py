"""One run of the patient, written down operation by operation, so that it can be run again with something changed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import CodeType
from typing import Any

import torch
import torch.backends.opt_einsum
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib.recorder.call import storage_of, tensors_in
from course_lib.recorder.source import Place, place_of

from .lines import OURS, Line, line_at

NOBODYS = (*OURS, "<frozen", "<string>")  # files whose lines no author can look at


@dataclass(eq=False)
class Operation:
    """One ATen operation: style is gone at this depth, a Linear, an `@` and an einsum are all `mm` or `bmm`.

    Attributes:
        number: its place in the trace.
        name: "bmm", "add_", "_softmax".
        func: what to call to do it again.
        args, kwargs: with a `Value` for each tensor.
        outputs: the values it gave; one that it changed in place is the same tensor as an earlier value.
        frames: the author's code objects and the bytes in them that caused the operation, the innermost first.
    """

    number: int
    name: str
    func: Callable[..., Any]
    args: tuple
    kwargs: dict[str, Any]
    outputs: tuple[Value, ...]
    frames: tuple[tuple[CodeType, int], ...]

    @property
    def code(self) -> CodeType | None:
        return self.frames[0][0] if self.frames else None

    @cached_property
    def place(self) -> Place:
        """The innermost line of an author."""
        return place_of(*self.frames[0]) if self.frames else Place()

    @cached_property
    def where(self) -> Line | None:
        return line_at(self.place)

    def by(self, code: CodeType | None) -> bool:
        """Whether one function alone did it, without calling another one of an author's."""
        return len(self.frames) == 1 and self.frames[0][0] is code

    def place_in(self, code: CodeType | None) -> Place:
        """The line in one function that led to it; the outermost one if the function had no part in it."""
        found = [frame for frame in self.frames if frame[0] is code]
        return place_of(*(found or self.frames)[-1]) if self.frames else Place()

    @property
    def outermost(self) -> Place:
        """The line of the patient's own forward that led to it."""
        return place_of(*self.frames[-1]) if self.frames else Place()

    @property
    def in_place(self) -> bool:
        return self.name.endswith("_") and not self.name.endswith("__")

    @cached_property
    def inputs(self) -> tuple[Value, ...]:
        return tuple(values_in((self.args, tuple(self.kwargs.values()))))

    def __repr__(self) -> str:
        return f"{self.number} {self.name} {self.where}"


@dataclass(eq=False)
class Value:
    """A tensor of the run.

    Attributes:
        number: index among the values.
        made_by: number of the operation that made it, or None for what was there before: x, weights, constants.
        tensor: the numbers right after they were made; those of leaves as they were given.
        storage: identity of its memory.
        version: how often that memory had been written to.
    """

    number: int
    made_by: int | None
    tensor: Tensor = field(repr=False)
    storage: int = 0
    version: int = 0


def values_in(thing: Any) -> Iterator[Value]:
    if isinstance(thing, Value):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from values_in(part)


def swap(thing: Any, kind: type, by: Callable[[Any], Any]) -> Any:
    """The same nest of tuples and lists, with each instance of a type replaced."""
    if isinstance(thing, kind):
        return by(thing)
    if isinstance(thing, (tuple, list)) and type(thing) in (tuple, list):
        return type(thing)(swap(part, kind, by) for part in thing)
    return thing


@contextmanager
def biases_unwatched() -> Iterator[None]:
    """PyTorch's causal biases can't be made while somebody watches its operations: they are made unwatched."""
    module = sys.modules.get("torch.nn.attention.bias")
    if module is None or "__new__" in vars(module.CausalBias):
        yield
        return

    def made(cls: type, *args: Any) -> Tensor:
        with torch.utils._python_dispatch._disable_current_modes():
            return Tensor.__new__(cls, *args)

    module.CausalBias.__new__ = made
    try:
        yield
    finally:
        del module.CausalBias.__new__


@contextmanager
def laid_open() -> Iterator[None]:
    """Fused kernels and short cuts off, so that everything is done in single operations."""
    einsum, fast = torch.backends.opt_einsum.enabled, torch.backends.mha.get_fastpath_enabled()
    with ExitStack() as stack:
        stack.enter_context(biases_unwatched())
        stack.enter_context(torch.no_grad())
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))
        torch.backends.opt_einsum.enabled = False
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            yield
        finally:
            torch.backends.opt_einsum.enabled = einsum
            torch.backends.mha.set_fastpath_enabled(fast)


class Trace:
    """What ran, in order, with every tensor as it was.

    Attributes:
        operations: in order.
        values: every tensor; leaves have no `made_by`.
        x: the value that is the input.
        output: the value that came out, or None if the code raised or gave back something else.
    """

    def __init__(self, examiner: CodeType | None = None) -> None:
        self.operations: list[Operation] = []
        self.values: list[Value] = []
        self.x: Value | None = None
        self.output: Value | None = None
        self.examiner = examiner
        self._known: dict[int, Value] = {}
        self._alive: list[Tensor] = []
        self._written: set[int] = set()
        self._writes: dict[int, int] = {}  # storage -> how often it was written to

    # -- writing it down --

    def value_of(self, tensor: Tensor) -> Value:
        """The value of a tensor; an unknown one was there before the run."""
        known = self._known.get(id(tensor))
        if known is None:
            return self._add(tensor, None)
        if known.version < self._writes.get(known.storage, 0):
            # Somebody wrote into it through another view: what is read now is a new value.
            number = len(self.operations)
            now = self._add(tensor, number)
            alias = torch.ops.aten.alias.default
            self.operations.append(Operation(number, "alias", alias, (known,), {}, (now,), self._authors()))
            return now
        return known

    def _add(self, tensor: Tensor, made_by: int | None) -> Value:
        storage = storage_of(tensor)
        with torch.utils._python_dispatch._disable_current_modes():
            numbers = tensor.detach().clone()
        value = Value(len(self.values), made_by, numbers, storage, self._writes.get(storage, 0))
        self.values.append(value)
        self._known[id(tensor)] = value
        self._alive.append(tensor)
        return value

    def note(self, func: Any, args: tuple, kwargs: dict, results: Any) -> None:
        """Write an operation down, its arguments already as values."""
        number = len(self.operations)
        name = func._schema.name.split("::")[-1]
        parts = tuple(tensors_in(results))
        if name.endswith("_") and not name.endswith("__") and parts:
            storage = storage_of(parts[0])
            self._written.add(storage)
            self._writes[storage] = self._writes.get(storage, 0) + 1
        outputs = tuple(self._add(part, number) for part in parts)
        self.operations.append(Operation(number, name, func, args, kwargs, outputs, self._authors()))

    def _authors(self) -> tuple[tuple[CodeType, int], ...]:
        """The frames of authors; the examiner's `call` only counts where nobody else is there."""
        frame, found = sys._getframe(1), []
        while frame is not None and frame.f_code is not write_down.__code__:
            if not frame.f_code.co_filename.startswith(NOBODYS):
                found.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return tuple(one for one in found if one[0] is not self.examiner) or tuple(found)

    def finish(self, x: Value, output: Any) -> None:
        self.x = x
        self.output = self.value_of(output) if isinstance(output, Tensor) else None
        self._known.clear()
        self._alive.clear()

    # -- asking --

    @cached_property
    def writers(self) -> dict[int, list[int]]:
        """storage -> the operations that wrote into it."""
        found: dict[int, list[int]] = {}
        for operation in self.operations:
            if operation.in_place:
                found.setdefault(operation.outputs[0].storage, []).append(operation.number)
        return found

    @cached_property
    def _always(self) -> set[int]:
        """The operations that a replay never skips: those on memory that is written to; all if any draws numbers."""
        kinds = {operation.func for operation in self.operations}
        if any(torch.Tag.nondeterministic_seeded in kind.tags for kind in kinds):
            return set(range(len(self.operations)))
        return {
            operation.number
            for operation in self.operations
            if operation.func._schema.is_mutable
            or any(value.storage in self._written for value in (*operation.inputs, *operation.outputs))
        }

    def ancestors(self, start: list[Value]) -> set[int]:
        """The operations that something in `start` came from."""
        writers = self.writers
        todo = list(start)
        seen: set[int] = set()
        known: set[int] = set()
        while todo:
            value = todo.pop()
            if value.number in known:
                continue
            known.add(value.number)
            for number in ([] if value.made_by is None else [value.made_by]) + writers.get(value.storage, []):
                if number not in seen:
                    seen.add(number)
                    todo.extend(self.operations[number].inputs)
        return seen

    def makers(self, value: Value, before: int) -> list[int]:
        """The operations that made a value or wrote into its memory, up to an operation."""
        made = [] if value.made_by is None else [value.made_by]
        return made + [number for number in self.writers.get(value.storage, []) if number < before]

    def below(self, start: set[int]) -> set[int]:
        """The operations that something in `start` flows into, and those in `start`."""
        found = set(start)
        for operation in self.operations:
            if any(n in found for value in operation.inputs for n in self.makers(value, operation.number)):
                found.add(operation.number)
        return found

    def of_x(self) -> set[int]:
        """The operations that x flows into, also those that only ask for its shape by a tensor."""
        start = {op.number for op in self.operations if any(v.storage == self.x.storage for v in op.inputs)}
        return self.below(start)

    def replay(
        self,
        x: Tensor | None = None,
        before: dict[tuple[int, int], Callable[[Tensor], Tensor]] | None = None,
        after: dict[int, Callable[[Tensor], Tensor]] | None = None,
        leaves: dict[int, Tensor] | None = None,
    ) -> list[Tensor]:
        """Do it all again with something changed.

        Args:
            x: another input.
            before: (operation, which of its tensors) -> what to make of that tensor, for this operation alone.
            after: operation -> what to make of its first result.
            leaves: number of a value that nothing made -> another tensor.

        Returns:
            The tensor of each value, as it was right after it was made.
        """
        before, after, leaves = before or {}, after or {}, leaves or {}
        seen: list[Tensor] = [value.tensor for value in self.values]
        now = list(seen)
        for value in self.values:
            if value.made_by is None:
                given = x if value is self.x and x is not None else leaves.get(value.number, value.tensor)
                now[value.number] = given.clone() if value.storage in self._written else given
                seen[value.number] = given
        touched = {number for number, _ in before} | after.keys()

        def put(thing: Any) -> Any:  # what swap does, for the place where most of a diagnosis' time goes
            if type(thing) is Value:
                return now[thing.number]
            return type(thing)([put(part) for part in thing]) if type(thing) in (tuple, list) else thing

        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            for operation in self.operations:
                if not (
                    operation.number in self._always
                    or operation.number in touched
                    or any(now[value.number] is not value.tensor for value in operation.inputs)
                ):
                    continue  # it would give again what it gave
                args = tuple(map(put, operation.args))
                kwargs = {name: put(arg) for name, arg in operation.kwargs.items()}
                if before:
                    args = self._changed(operation, args, before)
                results = operation.func(*args, **kwargs)
                parts = tuple(tensors_in(results))
                if operation.number in after and parts:
                    parts = (after[operation.number](parts[0]), *parts[1:])
                for value, tensor in zip(operation.outputs, parts, strict=True):
                    now[value.number] = tensor
                    seen[value.number] = tensor.clone() if value.storage in self._written else tensor
        return seen

    @staticmethod
    def _changed(operation: Operation, args: tuple, before: dict) -> tuple:
        made = list(args)
        for (number, place), change in before.items():
            if number == operation.number:
                made[place] = change(made[place])
        return tuple(made)


class _Writer(TorchDispatchMode):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.trace = trace

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        trace, kwargs = self.trace, kwargs or {}
        swapped = swap(args, Tensor, trace.value_of), {k: swap(v, Tensor, trace.value_of) for k, v in kwargs.items()}
        results = func(*args, **kwargs)
        trace.note(func, *swapped, results)
        return results


# PyTorch wraps this method so that it is never compiled; the wrapper's first call imports the compiler for two seconds.
_Writer.__torch_dispatch__ = getattr(_Writer.__torch_dispatch__, "__wrapped__", _Writer.__torch_dispatch__)


def write_down(run: Callable[[Tensor], Any], x: Tensor, examiner: CodeType | None = None) -> tuple[Trace, Any]:
    """Run something and write down what it did.

    Args:
        run: gets a copy of x.
        x: (batch, token, d_in).
        examiner: code that is not the patient's although its lines run.

    Returns:
        The trace, complete even if `run` raised, and what came out: the output, or the exception.
    """
    trace = Trace(examiner)
    given = x.clone()
    result: Any
    with laid_open(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        start = trace.value_of(given)
        try:
            with _Writer(trace):
                result = run(given)
        except Exception as error:
            result = error
    trace.finish(start, result)
    return trace, result
