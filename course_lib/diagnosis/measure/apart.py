"""Find the rows that queries, keys and values are made from where these are no tokens of x, or not the same ones.

Queries may be learned, keys may come from a convolution, and the rows of one attention may be those of one axis of a
grid. Each of the three is then given to the code in a tensor of its own, behind all that combines its rows.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.tracing import FACTORS, Operation, Value, propagate, replay

from .context import joined as as_one
from .dataflow import OUTPUT, Dataflow, X
from .operation_names import EXPONENTIALS, SOFTMAXES
from .place import Apart, Place, point_of
from .run import noise_of
from .score_products import ScoreProduct

MOST_SAMPLES = 48  # each is changed in turn


class _Part(NamedTuple):
    """A factor of a product, the operation that reads it, how many rows it holds, and in which axis."""

    value: Value
    at: Operation
    rows: int
    axis: int


@dataclass(frozen=True)
class _Entry:
    """An operation, or X, that makes the rows of a factor; `projected` says whether a product with a sum follows."""

    number: int
    projected: bool


def find_by_rows(flow: Dataflow, products: Sequence[ScoreProduct], name: str = "") -> list[Place]:
    """Return where attentions are computed from rows of their own, one for each product; [] if one is not found."""
    found = [place for product in products if (place := _place_apart(flow, product)) is not None]
    return [replace(place, name=name or place.name) for place in found] if len(found) == len(products) else []


def _place_apart(flow: Dataflow, product: ScoreProduct) -> Place | None:
    search = _Search(flow)
    parts = search.parts(product)
    if parts is None:
        return None
    queries, keys, values = (search.entries(part) for part in parts)
    chosen = next(filter(search.agree, _choices(search, queries, keys, values)), None)
    applied = parts[2].at
    if chosen is None or search.joins_samples(chosen, applied):
        return None
    output = search.output(applied, parts[0].rows, chosen[0])
    return None if output is None else search.place(chosen, output, product)


def _chosen(*parts: list[_Entry]) -> tuple[int, ...] | None:
    """Return the operations that make the rows: one for all, or two, or three."""
    if not all(parts):
        return None
    projected = [{one.number for one in part if one.projected} for part in parts]
    of_queries, of_keys, of_values = (next((one for one in part if one.projected), part[-1]).number for part in parts)
    for one in parts[0]:
        if all(one.number in numbers for numbers in projected):
            return (one.number,)
    for one in parts[1]:
        if one.number in projected[1] & projected[2]:
            return of_queries, one.number
    numbers = of_queries, of_keys, of_values
    return numbers[:1] if len(set(numbers)) == 1 else numbers


def _choices(search: "_Search", *parts: list[_Entry]) -> Iterator[tuple[int, ...]]:
    """Yield the operations that make the rows, and then those of one batch, such as that of heads pooled apart."""
    batches = [search.batch(one.number) for part in parts for one in part]
    for batch in (None, *dict.fromkeys(batches)):
        of_batch = [[one for one in part if batch in (None, search.batch(one.number))] for part in parts]
        chosen = _chosen(*of_batch)
        if chosen is not None:
            yield chosen


def _is_of_one_row(moved: Tensor, axis: int) -> bool:
    """Return whether the elements of a factor that moved are those of one row."""
    return int(moved.movedim(axis, -1).flatten(0, -2).any(0).sum()) == 1


class _Search:
    def __init__(self, flow: Dataflow) -> None:
        self._flow, self._trace = flow, flow.trace
        self._row_axes: dict[int, int] = {}  # of operations that make (row, batch, width) or (batch, width, row)

    def parts(self, product: ScoreProduct) -> tuple[_Part, _Part, _Part] | None:
        """Return queries, keys and values, if one product compares all rows and one applies all weights."""
        at, applied = product.operation, self._flow.value_factors([product])
        if at.name not in FACTORS or len(applied) != 1 or applied[0][0].name not in FACTORS:
            return None
        reader, values = applied[0]
        between = self._trace.descendants({at.number}) & self._trace.ancestors([reader.outputs[0]])
        if not any(self._trace.operations[one].name in (*SOFTMAXES, *EXPONENTIALS) for one in between):
            return None
        left, right = product.factors
        rows, columns = at.outputs[0].tensor.shape[-2:]
        queries, keys = _Part(left, at, rows, -2), _Part(right, at, columns, -1)
        if self._keys_are_left(at, reader, values):
            queries, keys = keys, queries
        axis = -2 if reader.args[FACTORS[reader.name][1]] is values else -1
        return queries, keys, _Part(values, reader, keys.rows, axis)

    def _keys_are_left(self, scores: Operation, reader: Operation, values: Value) -> bool:
        """Return whether the sums over values run over the rows of the scores instead of over their columns."""
        made = scores.outputs[0]
        labels = propagate(self._trace, {made.number: torch.arange(made.tensor.numel()).view(made.tensor.shape)})
        factors = [reader.args[index] for index in FACTORS[reader.name]]
        weights_left = factors[1] is values
        weights = labels[factors[0 if weights_left else 1].number]
        terms = weights.movedim(-1 if weights_left else -2, -1).flatten(0, -2)[0]
        columns = terms % made.tensor.shape[-1]
        return len(terms) > 1 and bool((terms >= 0).all()) and bool((columns == columns[0]).all())

    def entries(self, part: _Part) -> list[_Entry]:
        """Return what makes the rows of a factor without combining them afterwards, the nearest first."""
        before = self._trace.ancestors([part.value])
        found: list[_Entry] = []
        for number in self._behind(part):
            able = self._is_able(number) and self._has_rows(number, part.rows)
            if not able or not self._keeps_apart(number, part):
                continue
            after = before & self._after(number)
            projected = any(self._trace.operations[one].name in (*FACTORS, "convolution") for one in after)
            found.append(_Entry(number, projected))
        return found

    def _behind(self, part: _Part) -> Iterator[int]:
        """Yield the operations that all paths to a factor pass through, the nearest first, and X."""
        if self._flow.sources(part.value, part.at):
            yield from self._flow.passed(part.value, part.at)
            return
        value: Value | None = part.value
        while value is not None and value.made_by is not None:  # learned rows: the longest way
            yield value.made_by
            made_of = [one for one in self._trace.operations[value.made_by].inputs if one.tensor.is_floating_point()]
            value = max(made_of, key=lambda one: len(self._trace.ancestors([one])), default=None)

    def _is_able(self, number: int) -> bool:
        operation = None if number == X else self._trace.operations[number]
        if operation is not None and (not self._flow.is_whole(operation) or not operation.frames or operation.in_place):
            return False
        if operation is not None and operation.name in ("detach", "alias"):  # which not every run asks for
            return False
        return self._made(number).tensor.dim() > 1 and self._made(number).tensor.is_floating_point()

    def _has_rows(self, number: int, rows: int) -> bool:
        """Return whether an operation makes so many rows, in the last axis but one, in the first or in the last."""
        shape, batch = self._made(number).tensor.shape, len(self._trace.x.tensor)
        if shape[-2] != rows and len(shape) == 3 and shape[0] == rows != batch:
            self._row_axes[number] = 0
        elif shape[-2] != rows == shape[-1]:
            self._row_axes[number] = -1
        return rows == shape[self._row_axis(number)]

    def _row_axis(self, number: int) -> int:
        return self._row_axes.get(number, -2)

    def _as_rows(self, number: int, tensor: Tensor) -> Tensor:
        """Return a tensor in the layout of what an operation makes as a view (..., row, width), or the reverse."""
        return tensor.transpose(self._row_axis(number), -2)

    def _keeps_apart(self, number: int, part: _Part) -> bool:
        """Return whether no element of a factor depends on two rows, as far as the first two rows tell."""
        try:
            first = self._moved(number, 0, part.value)
        except Exception:  # the steps depend on x, or on weights that the first call made, and can't be run again
            return False
        if part.rows == 1:
            return bool(first.any())
        second = self._moved(number, 1, part.value)
        apart = not bool((first & second).any())
        return apart and _is_of_one_row(first, part.axis) and _is_of_one_row(second, part.axis)

    def _moved(self, number: int, row: int, value: Value) -> Tensor:
        """Return which elements of a value change with a row of what an operation makes."""
        made = self._made(number).tensor
        change = torch.zeros_like(made)
        of_row = self._as_rows(number, change)[..., row, :]
        of_row.copy_(noise_of(of_row.shape, seed=23))
        return _moved_in(self._changed(number, change), value)

    def _changed(self, number: int, change: Tensor) -> list[Tensor]:
        """Return each value's tensor in a run in which a change is added to what an operation makes."""
        if number == X:
            return replay(self._trace, self._made(number).tensor + change)
        return replay(self._trace, after={number: lambda tensor: tensor + change})

    def agree(self, chosen: tuple[int, ...]) -> bool:
        """Return whether queries, keys and values have as many samples."""
        batches = {self.batch(number) for number in chosen}
        return len(batches) == 1 and batches.pop() <= MOST_SAMPLES

    def joins_samples(self, chosen: tuple[int, ...], applied: Operation) -> bool:
        """Return whether results depend on the rows of several samples, as where rows are tied or in two orders."""
        result = applied.outputs[0]
        moved = [torch.zeros(result.tensor.shape, dtype=torch.bool) for _ in range(2)]
        for number in dict.fromkeys(chosen):
            samples = torch.arange(self.batch(number))
            second = samples == min(1, len(samples) - 1)  # the first is first in any order
            for part, which in zip(moved, (second, ~second), strict=True):
                part |= _moved_in(self._changed_samples(number, which), result)
        return bool((moved[0] & moved[1]).any())

    def _changed_samples(self, number: int, which: Tensor) -> list[Tensor]:
        """Return each value's tensor in a run in which the rows of the samples that are True in `which` change."""
        made = self._as_rows(number, self._made(number).tensor)
        noise = of_samples(noise_of(made.shape, seed=23).to(made.dtype))
        change = torch.where(which[:, None, None], noise, 0).view(made.shape)
        return self._changed(number, self._as_rows(number, change))

    def batch(self, number: int) -> int:
        return math.prod(self._as_rows(number, self._made(number).tensor).shape[:-2])

    def output(self, applied: Operation, rows: int, queries: int) -> int | None:
        """Return the first operation after a projection, or else the last, that gives a row for each query."""
        flow, trace, batch = self._flow, self._trace, self.batch(queries)
        if trace.output is None:
            return None
        numbers = [
            one for one in flow.passed_after([applied.number], trace.output) if one not in (OUTPUT, applied.number)
        ]
        now = self._changed_samples(queries, torch.arange(batch) == 0)  # heads, or samples, may be as many as rows
        able = [
            one
            for one in numbers
            if self._is_able(one)
            and self._is_row_of(one, rows, batch)
            and self._row_axis(one) in (-2, 0, self._row_axis(queries))
            and not of_samples(self._as_rows(one, _moved_in(now, self._made(one))))[1:].any()
        ]
        own = [one for one in able if not flow.behind[one] & ~flow.behind[applied.number]]
        after = trace.descendants({applied.number})
        for number in own:
            between = trace.ancestors([self._made(number)]) & after - {applied.number}
            if any(trace.operations[one].name in (*FACTORS, "convolution") for one in between):
                return number
        return own[-1] if own else None

    def _is_row_of(self, number: int, rows: int, batch: int) -> bool:
        return self._has_rows(number, rows) and self.batch(number) == batch

    def place(self, chosen: tuple[int, ...], output: int, product: ScoreProduct) -> Place:
        """Return the place, with the rows that the code computed."""
        line = product.operation.where
        *points, end = [point_of(self._trace, number) for number in (*chosen, output)]
        made = [self._as_rows(number, self._made(number).tensor) for number in chosen]
        given, *others = map(of_samples, made)
        place = Place(f"the one at {line}" if line else "one without a module", called=line)
        if others and self._are_of_tokens(chosen):
            given = torch.cat([given, *others], dim=-1)  # each in columns of its own
        elif others:
            memory = F.pad(torch.cat(others, dim=-1), (given.shape[-1], 0))  # in columns of its own
            widths = (given.shape[-1], memory.shape[-1])
            place = replace(place, num_context=memory.shape[1], widths=widths)
            given = as_one(given, memory)
        axes = [self._row_axis(number) for number in (*chosen, output)]
        apart = Apart(points, [tuple(one.shape) for one in made], end, self._read(chosen, output), axes)
        return replace(place, apart=apart, given=given.contiguous())

    def _are_of_tokens(self, chosen: tuple[int, ...]) -> bool:
        """Return whether all rows that are made are those of x's tokens: each moves with its own, if not only with it.

        A convolution that comes before combines the rows of several tokens.
        """
        x = self._trace.x.tensor
        rows = [self._as_rows(number, self._made(number).tensor).shape[-2] for number in chosen]
        if x.dim() != 3 or x.shape[1] > MOST_SAMPLES or set(rows) != {x.shape[1]}:
            return False
        noise = noise_of(x.shape, seed=23).to(x.dtype)
        for token in range(x.shape[1]):
            here = (torch.arange(x.shape[1]) == token)[:, None]
            try:
                now = replay(self._trace, torch.where(here, x + noise, x))
            except (IndexError, RuntimeError, ValueError):  # a router's choice became a size: it holds for one x only
                return False
            moved = (self._as_rows(number, _moved_in(now, self._made(number))) for number in chosen)
            if not all(one[..., token, :].any() for one in moved):
                return False
        return True

    def _read(self, chosen: tuple[int, ...], output: int) -> frozenset[int]:
        """Return the storages that operations from the rows to the output read, and that neither of these made."""
        trace, operations, inside = self._trace, self._trace.operations, set[int]()
        after, todo = set[int]().union(*(self._after(number) for number in chosen)), [output]
        while todo:
            number = todo.pop()
            if number in after and number not in inside and number not in chosen:
                inside.add(number)
                todo += [one for value in operations[number].inputs for one in trace.writers_of(value, number)]
        made = inside.union(chosen)
        inputs = (value for number in inside for value in operations[number].inputs)
        return frozenset(value.storage for value in inputs if value.made_by not in made)

    def _after(self, number: int) -> set[int]:
        return self._trace.descendants_of_input() if number == X else self._trace.descendants({number})

    def _made(self, number: int) -> Value:
        return self._trace.x if number == X else self._trace.operations[number].outputs[0]


def of_samples(rows: Tensor) -> Tensor:
    """Return rows, (*axes of samples, row, width), as (sample, row, width)."""
    return rows.reshape(-1, *rows.shape[-2:])


def _moved_in(now: list[Tensor], value: Value) -> Tensor:
    """Return which elements of a value are others in a run with a change."""
    return (now[value.number] - value.tensor).abs() > 1e-9
