"""The code under diagnosis, of which only copies run, so that neither it nor its inputs change."""

import inspect
import re
import sys
from collections.abc import Callable, Set
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from typing import Any, Self

import torch
from torch import Tensor, nn

from course_lib.tracing import (
    FunctionWatch,
    SourceLine,
    Trace,
    error_message,
    last_line,
    map_instances,
    tensors_in,
    trace_run,
    without_gradients,
)

from .calling import Call, usual_call
from .copying import copy_of, in_dtype, replace_given_dtype
from .talking_heads import Combinations, without
from .waking import woken
from .widening import widen_kept_tensors, widened

NO_GPU = re.compile(
    r"not compiled with CUDA|NVIDIA driver|No (CUDA|HIP) GPUs|cuda\.is_available\(\) is False|MPS backend"
)


class SubjectFailed(RuntimeError):
    """The code raised, or returned something other than a tensor; the message says which.

    Attributes:
        line: the innermost line of the code that the error passed through, or None.
    """

    def __init__(self, message: str, line: SourceLine | None = None) -> None:
        super().__init__(message)
        self.line = line


class Subject:
    """A module or function to run in float64 and evaluation mode, with its own random seed.

    Args:
        code: a module, which is copied, or a function.
        call: (code, x) -> output, for code that takes or returns more than one tensor. By default, code with three
            tensor arguments gets x as queries, keys and values, and the first of several results is the output.

    Attributes:
        original: the code as the caller passed it.
        code: the copy in float64 that is traced.
        caller: code object of `call`, whose lines are not the subject's.
        given_call: `call` as it was given, or None.
        widened: whether float32 in the code is read as float64 in runs in float64.
        rounded_at: the lines that round tokens to float32 in float64, if such lines are why it is widened.
        awake: whether weights that are all zeros are replaced by random ones, because nothing passes through them.
        talking_heads: the operations that combine heads, which are left out.
        used: the names and frames of the operations that reach the output of the whole code, if this is a part of it.
        used_parameters: the parameters that these read, or that `call` says are used before x takes its place.
        combining: the names of the parameters of talking heads.
        makes_x: whether x is a tensor of its own, such as the embeddings of ids, and not its caller's.
        added: how many tokens of x, or rows of zeros at the end of the output, the code put to those of its own input.
        of_row: whether x is a row of tokens as it was given, of which the code may make a grid.
        keeps_given_dtype: whether copies in another dtype keep the one that the code was given by an argument.
        is_part: whether it is some operations of the code, whose arguments and attributes may be about others.

    Raises:
        TypeError: code that can't be called.
        RuntimeError: a module that can't be copied.
    """

    makes_x = awake = widened = is_part = of_row = keeps_given_dtype = False
    added = 0
    used: Set[tuple[str, tuple]] = frozenset()
    used_parameters: Set[str] = frozenset()

    def __init__(self, code: Callable[..., Any], call: Call | None = None) -> None:
        if not callable(code):
            raise TypeError(f"module_or_function must be a module or a function, got {type(code).__name__}.")
        self.original = code
        self.code = self.copy(torch.float64)
        self.caller = getattr(inspect.unwrap(call), "__code__", None) if call else None
        self.rounded_at: list[SourceLine] = []
        self.talking_heads: Combinations = {}
        self.combining: frozenset[str] = frozenset()
        self.given_call = call
        self.used_parameters = getattr(call, "used_parameters", self.used_parameters)
        self._call = call or usual_call(code)

    @property
    def is_module(self) -> bool:
        return isinstance(self.original, nn.Module)

    @property
    def is_whole(self) -> bool:
        """Whether x is the caller's, and not the input of a part of the code, which may have other tokens."""
        return not self.is_part and self.examined is self.code

    @property
    def examined(self) -> Callable[..., Any]:
        """What the findings are about: the copy in float64, or a module inside it."""
        return self.examined_in(self.code)

    def examined_in(self, code: Callable[..., Any]) -> Callable[..., Any]:
        """Return what the findings are about in a copy of the code."""
        return code

    @property
    def modules(self) -> dict[str, nn.Module]:
        """The module and those inside it, by name; empty for a function."""
        return dict(self.examined.named_modules()) if isinstance(self.examined, nn.Module) else {}

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        return dict(self.examined.named_parameters()) if isinstance(self.examined, nn.Module) else {}

    def dtype(self, x: Tensor) -> torch.dtype:
        """Return the dtype that the code is meant to run in: that of its parameters, or else of x."""
        parameters = self.original.parameters() if isinstance(self.original, nn.Module) else iter(())
        return next((one.dtype for one in parameters), x.dtype)

    def call(self, code: Callable[..., Any], x: Tensor) -> Any:
        """Run a copy; a function runs on copies of the tensors outside its arguments."""
        apart = without(self.talking_heads, sys._getframe(), self.caller)
        with self.as_wide_as(x), self.apart(x), apart:
            output = self._call(code, x)
        return _as_row(output, x) if self.of_row else output

    def apart(self, x: Tensor) -> AbstractContextManager[Any]:
        """Keep what a function reads besides its arguments as it is; a module is copied instead."""
        return nullcontext() if self.is_module else _IsolatedTensors(x)

    def as_wide_as(self, x: Tensor) -> AbstractContextManager[None]:
        """Read float32 in the code as float64 where that is wanted and x is float64."""
        return widened() if self.widened and x.dtype == torch.float64 else nullcontext()

    def runs_in(self, dtype: torch.dtype, x: Tensor) -> bool:
        """Return whether the code runs on x in a dtype."""
        try:
            self.run(x.to(dtype), self.copy(dtype))
        except SubjectFailed:
            return False
        return True

    def copy(self, dtype: torch.dtype, *, training: bool = False) -> Callable[..., Any]:
        """Return a copy of the module on the CPU, in a dtype; return a function itself."""
        if not isinstance(self.original, nn.Module):
            return self.original
        module = in_dtype(dtype, copy_of(self.original).to("cpu"))
        before = next((one.dtype for one in self.original.parameters()), dtype)
        if before != dtype and not self.keeps_given_dtype:
            replace_given_dtype(module, before, dtype)
        module.train(training)  # which an author's own `train` may forget to return
        return self.adapted(module, dtype)

    def adapted(self, module: nn.Module, dtype: torch.dtype) -> nn.Module:
        """Return a copy with its kept tensors widened, and with random weights in place of zeros, if that is wanted."""
        if self.widened and dtype == torch.float64:
            widen_kept_tensors(module)
        return woken(module) if self.awake else module

    def with_code(self, code: Callable[..., Any]) -> Self:
        """Return the same subject of other code, such as a copy with another setting."""
        other = copy(self)
        other.original = code
        other.code = other.copy(torch.float64)
        return other

    def with_given_dtype(self) -> Self:
        """Return the same subject, whose copies compute in the dtype that the code was given, whatever x has."""
        other = copy(self)
        other.keeps_given_dtype = True
        return other

    def with_call(self, call: Call) -> Self:
        """Return the same subject, run in another way."""
        other = copy(self)
        other.given_call = other._call = call
        return other

    def trace(self, x: Tensor, code: Callable[..., Any] | None = None, *, modules: bool = False) -> tuple[Trace, Any]:
        """Trace a run, if asked for with the calls of modules; the result may be the exception that it raised."""
        code = self.code if code is None else code
        return trace_run(lambda given: self.call(code, given), x, self.caller, modules=modules)

    def run(self, x: Tensor, code: Callable[..., Any] | None = None, *, seed: int = 0) -> Tensor:
        """Run the code on a copy of x.

        Args:
            x: (batch, token, d_in).
            code: the copy to run; a fresh one in float64 if None.
            seed: of the random numbers.

        Raises:
            SubjectFailed: it raised, or did not return a tensor.
        """
        with torch.random.fork_rng(devices=[]), without_gradients():
            torch.default_generator.manual_seed(seed)
            try:
                output = self.call(self.copy(torch.float64) if code is None else code, x.clone())
            except Exception as error:
                raise SubjectFailed(error_message(error), last_line(error)) from error
        if not isinstance(output, Tensor):
            raise SubjectFailed(f"it gave back {type(output).__name__} instead of a tensor")
        return output


class _IsolatedTensors(FunctionWatch):
    """Replaces every tensor that existed before the run by a copy; tensors that the code makes stay as they are.

    A module can be copied and converted beforehand, but a function's outside tensors are copied when it first uses
    them: it must not change the originals, and a float32 matrix does not multiply an x of another dtype.
    """

    def __init__(self, x: Tensor) -> None:
        super().__init__()
        self._made = {self.hold(x)}
        self._copies: dict[int, Tensor] = {}
        self._dtype = x.dtype

    def call(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run a call on copies."""
        args, kwargs = map_instances(Tensor, self._copy_of, (args, kwargs))
        result = func(*args, **kwargs)
        self._made |= {self.hold(tensor) for tensor in tensors_in(result)}
        return result

    def _copy_of(self, tensor: Tensor) -> Tensor:
        if id(tensor) in self._made:
            return tensor
        if id(tensor) not in self._copies:
            copy = tensor.detach().cpu().clone()
            self._copies[self.hold(tensor)] = copy.to(self._dtype) if copy.is_floating_point() else copy
        return self._copies[id(tensor)]


def _as_row(output: Any, x: Tensor) -> Any:
    """Return an output, (batch, row, column, width), of a grid that the code makes of a row of tokens, as that row."""
    if x.dim() != 3 or not isinstance(output, Tensor) or output.dim() != 4:
        return output
    batch, rows, columns, _ = output.shape
    is_grid = min(rows, columns) > 1 and (batch, rows * columns) == x.shape[:2]
    return output.flatten(1, 2) if is_grid else output


def asks_for_gpu(error: BaseException) -> bool:
    """Return whether code failed because it names a GPU that the machine lacks."""
    return bool(NO_GPU.search(str(error)))
