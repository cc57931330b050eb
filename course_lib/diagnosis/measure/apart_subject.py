"""Run the whole of some code on its own input, with other rows in place of those of one attention."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.tracing import LAYOUT, Trace, storage_of, unfused

from .apart import of_samples
from .place import Apart, Place, Point
from .segment_subject import Feed, Reached, used_in
from .subject import Subject


class ApartSubject(Subject):
    """One attention whose queries, keys or values are made from rows that are no tokens of x.

    Args:
        whole: the code.
        place: of the attention in it.
        apart: the operations that compute it.
        template: the whole's input.
        trace: of the whole, which names the parameters that the attention reads.
    """

    is_part = True

    def __init__(self, whole: Subject, place: Place, apart: Apart, template: Tensor, trace: Trace) -> None:
        vars(self).update(vars(whole))
        self.whole, self.place, self._apart, self.template = whole, place, apart, template
        self.code = whole.copy(torch.float64)
        self.used, self.used_parameters = used_in(trace, whole.parameters)
        self._read = {name for name, one in whole.parameters.items() if storage_of(one) in apart.read}

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """The parameters that are read between the rows and the output of the attention."""
        return {name: one for name, one in super().parameters.items() if name in self._read}

    def call(self, code: Callable[..., Any], x: Tensor) -> Any:
        """Run the whole up to the attention's output, with x in place of its rows.

        Raises:
            RuntimeError: x has other sizes, or the output is not reached.
        """
        given = dict(zip(self._apart.entries, self._parts(x), strict=True))
        whole = given.pop(Point(), self.template).to(x.dtype)
        feed = Feed(sys._getframe(), self.caller, given, self._apart.output)
        try:
            with unfused(), self.as_wide_as(x), feed:  # as the run that was traced
                self.whole.call(code, whole)
        except Reached as reached:
            if feed.met != given.keys():
                raise RuntimeError(f"{self.place.name} does not run: its rows were made otherwise") from None
            rows = of_samples(reached.output.transpose(self._apart.row_axes[-1], -2))
            count = self.place.num_context
            return torch.cat([rows, rows.new_zeros(len(rows), count, rows.shape[-1])], dim=1) if count else rows
        finally:
            feed.let_go()
        raise RuntimeError(f"{self.place.name} does not run")

    def trace(self, x: Tensor, code: Callable[..., Any] | None = None, *, modules: bool = False) -> tuple[Trace, Any]:
        """Trace a run, without what led to the rows that x took the place of."""
        trace, result = super().trace(x, code, modules=modules)
        return _without_former_rows(trace), result

    def _parts(self, x: Tensor) -> list[Tensor]:
        """Return the rows of each entry as the code has them."""
        shapes, axes, count = self._apart.shapes, self._apart.row_axes, self.place.num_context
        memory = x[:, x.shape[1] - count :] if count else x
        rows = [x[:, : x.shape[1] - count], *[memory] * (len(shapes) - 1)]
        parts, start = [], 0
        for shape, part, axis in zip(shapes, rows, axes[:-1], strict=True):  # each in columns of its own
            own = part[..., start : start + shape[-1]].reshape(shape)
            parts.append(own.transpose(axis, -2).contiguous())
            start += shape[-1]
        return parts


def _without_former_rows(trace: Trace) -> Trace:
    """Leave out the operations, up to the last that x is put in place of, that nothing of x or of the output needs."""
    from_x = trace.descendants_of_input()
    needed = from_x | (set() if trace.output is None else trace.ancestors([trace.output]))
    last = max((number for number in from_x if _is_moved(trace, number)), default=0)
    kept = [one for one in trace.operations if one.number in needed or one.number > last]
    numbers = {one.number: index for index, one in enumerate(kept)}
    for value in trace.values:
        value.made_by = None if value.made_by is None else numbers.get(value.made_by)
    for call in trace.calls:
        call.first, call.last = (sum(number < end for number in numbers) for end in (call.first, call.last))
    for index, operation in enumerate(kept):
        operation.number = index
    return Trace(kept, trace.values, trace.x, trace.output, trace.caller, trace.calls)


def _is_moved(trace: Trace, number: int) -> bool:
    """Return whether an operation and all before it only lay out x."""
    before = trace.ancestors(trace.operations[number].outputs)
    return all(trace.operations[one].name in (*LAYOUT, "to", "_to_copy") for one in before)
