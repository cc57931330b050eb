"""Run the whole of some code with x in place of the tokens of one of its attentions, and stop where that ends."""

import math
import sys
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.tracing import SingleOperations, Trace, code_frames, operation_name, storage_of, tensors_in, unfused

from .place import Place, Point, Segment
from .placed import resized
from .subject import Subject


class SegmentSubject(Subject):
    """One attention of code that has no module for it: the whole runs on its own input, and the attention on x.

    Args:
        whole: the code.
        place: of the attention in it, with a segment.
        template: the whole's input, (batch, token, d_in).
        trace: of the whole, which names the parameters that the attention reads.
    """

    is_part = True

    def __init__(self, whole: Subject, place: Place, template: Tensor, trace: Trace) -> None:
        vars(self).update(vars(whole))
        self.whole, self.place, self.template = whole, place, template
        self.code = whole.copy(torch.float64)
        self.used, self.used_parameters = used_in(trace, whole.parameters)
        self._read = self._names_read(trace)

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that are read between the tokens and the output of the attention, or nowhere in the run."""
        return {name: one for name, one in super().parameters.items() if name in self._read}

    def call(self, code: Callable[..., Any], x: Tensor) -> Any:
        """Run the whole up to the attention's output, with x in place of its tokens.

        Raises:
            RuntimeError: its output is not reached, because another number of tokens or samples takes other steps, or
                its rows were made otherwise.
        """
        given, output = self._ends(x)
        whole = given.pop(Point()).to(x.dtype)
        feed = Feed(sys._getframe(), self.caller, given, output)
        try:
            with unfused(), self.as_wide_as(x), feed:  # as the run that was traced
                self.whole.call(code, whole)
        except Reached as reached:
            if self.place.apart is not None and feed.met != given.keys():
                raise RuntimeError(f"{self.place.name} does not run: its rows were made otherwise") from None
            rows, count = self._as_rows(reached.output), self.place.num_context
            return torch.cat([rows, rows.new_zeros(len(rows), count, rows.shape[-1])], dim=1) if count else rows
        finally:
            feed.let_go()
        raise RuntimeError(f"{self.place.name} does not run for {x.shape[1]} tokens")

    def _ends(self, x: Tensor) -> tuple[dict[Point, Tensor], Point]:
        """Return what takes the place of results, and of the whole's input, which is cut or repeated; and the end."""
        tokens, memory = self._parts(x)
        whole = resized(self.template, len(x), x.shape[1] - self.place.num_context)
        given = {Point(): whole} | {self._segment.queries: tokens}
        return given | ({} if self._segment.keys is None else {self._segment.keys: memory}), self._segment.output

    @cached_property
    def _segment(self) -> Segment:
        if self.place.segment is None:
            raise ValueError(f"{self.place.name} is computed by a module.")
        return self.place.segment

    def _parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens of queries, and those of keys if those are others, as the code has them."""
        count, (width, of_keys) = self.place.num_context, self.place.widths
        parts = (x[:, :-count, :width], x[:, -count:, :of_keys]) if count else (x, x)
        if self._segment.columns_first:  # an image has rows and columns of tokens
            columns = parts[0].mT
            whole = math.prod(self._segment.columns_first) == columns.shape[2]
            axes = self._segment.columns_first if whole else columns.shape[2:]
            return columns.reshape(*columns.shape[:2], *axes), parts[1]
        if self.place.tokens_first:
            parts = parts[0].transpose(0, 1), parts[1].transpose(0, 1)
        return parts if not count and not self.place.tokens_first else (parts[0].contiguous(), parts[1].contiguous())

    def _as_rows(self, output: Tensor) -> Tensor:
        rows = output.transpose(0, 1) if self.place.tokens_first else output
        return rows.flatten(2).mT if self._segment.output_columns_first else rows

    def _names_read(self, trace: Trace) -> set[str]:
        names = {storage_of(one): name for name, one in self.whole.parameters.items()}
        numbers = self._segment.numbers
        own = {value.storage for number in numbers for value in trace.operations[number].inputs}
        elsewhere = {value.storage for operation in trace.operations for value in operation.inputs} - own
        return {name for storage, name in names.items() if storage not in elsewhere}


def used_in(trace: Trace, parameters: dict[str, nn.Parameter]) -> tuple[set[tuple[str, tuple]], set[str]]:
    """Return the names and frames of the operations that reach the output, and the parameters that they read."""
    live = [trace.operations[number] for number in (trace.ancestors([trace.output]) if trace.output else ())]
    read = {value.storage for operation in live for value in operation.inputs}
    names = {name for name, one in parameters.items() if storage_of(one) in read}
    return {(operation.name, operation.frames) for operation in live}, names


class Reached(BaseException):
    """The output of the attention, which ends the run; no `except Exception` of the code stops it."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


def _copy_laid_as(given: Tensor, former: Tensor) -> Tensor:
    """Return a copy of a tensor whose axes are in the order in memory of another one's."""
    order = sorted(range(former.dim()), key=lambda axis: -former.stride(axis))
    back = sorted(range(former.dim()), key=order.__getitem__)
    return given.permute(order).clone(memory_format=torch.contiguous_format).permute(back)


class Feed(SingleOperations):
    """Puts tensors in place of the results of some operations, and ends the run with the result of another."""

    def __init__(self, stop: Any, caller: CodeType | None, given: dict[Point, Tensor], output: Point) -> None:
        super().__init__(stop)
        self._caller, self._given, self._output = caller, given, output
        self._names = {point.name for point in (*given, output)}
        self._seen: Counter = Counter()
        self.met: set[Point] = set()  # those whose results were replaced

    def see(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        result, name = func(*args, **kwargs), operation_name(func)
        if name not in self._names:
            return result
        frames = code_frames(self.author_frames(), self._caller)
        point = Point(name, frames, self._seen[name, frames])
        self._seen[name, frames] += 1
        tensors = list(tensors_in(result))
        if point == self._output:
            raise Reached(tensors[0])
        if point in self._given:  # a copy, because the code may write into it; in the same order, as to copy no more
            self.met.add(point)
            given = self._given[point].to(tensors[0].dtype)
            given = _copy_laid_as(given, tensors[0])
            return given if result is tensors[0] else (given, *result[1:])  # a norm also returns its statistics
        return result
