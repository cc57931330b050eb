"""Run the whole of some code on its own input, with other rows in place of those of one attention."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from course_lib.tracing import LAYOUT, Trace, storage_of

from .apart import of_samples
from .place import Apart, Point
from .segment_subject import SegmentSubject


class ApartSubject(SegmentSubject):
    """One attention whose queries, keys or values are made from rows that are no tokens of x."""

    @property
    def _apart(self) -> Apart:
        if self.place.apart is None:
            raise ValueError(f"{self.place.name} is made from tokens.")
        return self.place.apart

    def trace(self, x: Tensor, code: Callable[..., Any] | None = None, *, modules: bool = False) -> tuple[Trace, Any]:
        """Trace a run, without what led to the rows that x took the place of."""
        trace, result = super().trace(x, code, modules=modules)
        return _without_former_rows(trace), result

    def _ends(self, x: Tensor) -> tuple[dict[Point, Tensor], Point]:
        return {Point(): self.template} | dict(zip(self._apart.entries, self._rows(x), strict=True)), self._apart.output

    def _as_rows(self, output: Tensor) -> Tensor:
        return of_samples(output.transpose(self._apart.row_axes[-1], -2))

    def _names_read(self, trace: Trace) -> set[str]:
        return {name for name, one in self.whole.parameters.items() if storage_of(one) in self._apart.read}

    def _rows(self, x: Tensor) -> list[Tensor]:
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
