"""Run code once and note every operation as a node of a graph."""

import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from .fused import SingleOperations, unfused
from .graph import Operation, Trace, Value
from .module_calls import noting_calls
from .source_line import passes_on
from .tensors import map_instances, shape_stride_offset, tensors_in
from .torch_private import OpOverload, operation_name, storage_of, without_modes


def trace_run(
    run: Callable[[Tensor], Any], x: Tensor, caller: CodeType | None = None, *, modules: bool = False
) -> tuple[Trace, Any]:
    """Run a function on a copy of x, (batch, token, d_in), and trace its operations.

    `caller` is code that calls the traced code and is not part of it, although its lines run; with `modules`, the calls
    of modules are noted, too. Returns the trace, up to the exception if `run` raised, and the output or the exception.
    """
    tracer = _Tracer(sys._getframe(), caller)
    tokens = x.clone()
    result: Any
    noting = noting_calls(lambda: len(tracer.operations), tracer.value_of) if modules else nullcontext(())
    with noting as calls, unfused(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        start = tracer.value_of(tokens)
        try:
            with tracer:
                result = run(tokens)
        except Exception as error:
            result = error
    output = tracer.value_of(result) if isinstance(result, Tensor) else None
    tracer.let_go()
    return Trace(tracer.operations, tracer.values, start, output, caller, tuple(calls)), result


class _Tracer(SingleOperations):
    """Builds the operations and values of a trace while code runs."""

    def __init__(self, stop: FrameType, caller: CodeType | None) -> None:
        super().__init__(stop)
        self.operations: list[Operation] = []
        self.values: list[Value] = []
        self._caller = caller
        self._known: dict[int, Value] = {}  # id of a tensor that is held -> its latest value
        self._writes: dict[int, int] = {}  # storage -> how often it was written to

    def see(self, func: OpOverload, args: tuple, kwargs: dict[str, Any]) -> Any:
        args_as_values, kwargs_as_values = map_instances(Tensor, self.value_of, (args, kwargs))
        results = func(*args, **kwargs)
        self._note(func, args_as_values, kwargs_as_values, results)
        return results

    def value_of(self, tensor: Tensor) -> Value:
        """Return the value of a tensor; an unknown tensor existed before the run."""
        known = self._known.get(id(tensor))
        if known is None:
            return self._add(tensor, None)
        if known.version < self._writes.get(known.storage, 0):
            # It was written to through another view, so its elements are a new value.
            number = len(self.operations)
            now = self._add(tensor, number)
            alias = torch.ops.aten.alias.default
            self.operations.append(Operation(number, "alias", alias, (known,), {}, (now,), self._frames()))
            return now
        return known

    def _add(self, tensor: Tensor, producer: int | None) -> Value:
        storage = storage_of(tensor)
        with without_modes():
            copy = tensor.detach().clone()
            _, strides, offset = shape_stride_offset(tensor)
        value = Value(len(self.values), producer, copy, storage, self._writes.get(storage, 0), offset, strides)
        self.values.append(value)
        self._known[self.hold(tensor)] = value
        return value

    def _note(self, func: OpOverload, args: tuple, kwargs: dict[str, Any], results: Any) -> None:
        tensors = list(tensors_in(results))
        operation = Operation(len(self.operations), operation_name(func), func, args, kwargs, (), self._frames())
        if operation.in_place and tensors:
            storage = storage_of(tensors[0])
            self._writes[storage] = self._writes.get(storage, 0) + 1
        operation.outputs = tuple(self._add(tensor, operation.number) for tensor in tensors)
        self.operations.append(operation)

    def _frames(self) -> tuple[tuple[CodeType, int], ...]:
        return code_frames(self.author_frames(), self._caller)


def code_frames(innermost: Iterator[FrameType], caller: CodeType | None) -> tuple[tuple[CodeType, int], ...]:
    """Return the code and the instruction of the author's frames; those of the caller only if there are no others."""
    frames = [(frame.f_code, frame.f_lasti) for frame in innermost]
    frames = [frame for frame in frames if frame[0].co_filename != "<string>"]  # the `__init__` of a dataclass
    inner = frames[:1] + [frame for frame in frames[1:] if not passes_on(frame[0])]
    return tuple(frame for frame in inner if frame[0] is not caller) or tuple(frames)
