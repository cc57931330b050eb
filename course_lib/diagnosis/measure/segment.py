"""Find the part of a run that computes one attention where no module holds that attention alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from course_lib.tracing import Operation, Value, replay

from .context import joined as as_one
from .dataflow import OUTPUT, Dataflow, X
from .place import Place, Segment, Sizes, joined, point_of
from .run import noise_of
from .score_products import ScoreProduct

NO_TOKENS = "no tensor (batch, token, width) is found that its queries and keys, and no other attention, come from"

Placed = tuple[Place, list[Value], list[ScoreProduct]]  # the memory that keys come from if queries do not; its products
Found = tuple[int, int | None]  # the operations that make the tokens of queries, and of keys if those are others


def find_segments(
    flow: Dataflow, group: Sequence[ScoreProduct], sizes: Sizes, *, fewer_keys: bool = False
) -> list[Placed]:
    """Return the place of each attention among some products of the same depth.

    Args:
        flow: how x flows through the whole.
        group: products to place.
        sizes: batch and num_tokens of x.
        fewer_keys: whether keys and values come from tokens that were combined into fewer, as by a convolution with a
            stride; those are then a memory.
    """
    search = _Search(flow, sizes, fewer_keys)
    parts: dict[tuple[Found | None, int | None], list[ScoreProduct]] = {}
    for product in group:
        parts.setdefault((search.entries(product), search.nearest(product)), []).append(product)
    return [(*search.place(entries, products), products) for (entries, _), products in parts.items()]


class _Search:
    def __init__(self, flow: Dataflow, sizes: Sizes, fewer_keys: bool) -> None:
        self._flow, self._sizes, self._fewer_keys = flow, sizes, fewer_keys
        self._trace = flow.trace

    def entries(self, product: ScoreProduct) -> Found | None:
        """Return the operations that make the tokens of a product's queries and keys; None if they are unknown."""
        at = product.operation
        left, right = (self._ends(value, at) for value in product.factors)
        values = [self._ends(value, operation) for operation, value in self._flow.value_factors([product])]
        if not left.passed or not right.passed:
            return None
        one = self._common([left, right, *values], self._is_row)
        if one is not None and not self._fewer_keys:
            return one, None
        if self._fewer_keys and self._sizes[1] not in at.outputs[0].tensor.shape:  # queries are reduced, too
            return None
        for queries, keys in ((left, right), (right, left)):
            of_queries, of_keys = self._common([queries], self._is_row), self._common([keys, *values], self._is_memory)
            if of_queries is not None and of_keys is not None:
                return of_queries, of_keys
        return None

    def nearest(self, product: ScoreProduct) -> int | None:
        """Return what makes the tokens of queries and keys, be they x's or those of another sequence."""
        return self._common([self._ends(value, product.operation) for value in product.factors], self._is_tokens)

    def place(self, entries: Found | None, products: list[ScoreProduct]) -> tuple[Place, list[Value]]:
        """Return where some products are computed, and the memory that their keys come from, if it is not x."""
        line = products[0].operation.where
        place = Place(f"the one at {line}" if line else "one without a module", called=line, missing=NO_TOKENS)
        output = self._output(products)
        if entries is None or output is None:
            return place, []
        queries, keys = entries
        first, last = max(queries, X), self._trace.operations[output]
        before = set() if keys is None else self._trace.ancestors([self._made(keys)])
        own = (self._trace.descendants_of_input() | self._trace.ancestors([self._made(output)])) - before
        numbers = [number for number in range(first + 1, output + 1) if number in own]  # and none of other inputs
        point = partial(point_of, self._trace)
        segment = Segment(point(queries), None if keys is None else point(keys), point(output), numbers)
        tokens, tokens_first, columns_first = rows_of(self._made(queries).tensor, self._sizes)
        output_too = bool(rows_of(self._made(output).tensor, self._sizes)[2])
        segment = replace(segment, columns_first=columns_first, output_columns_first=output_too)
        if tokens is None or not last.outputs:
            return place, []
        place = replace(place, segment=segment, given=tokens, tokens_first=tokens_first, missing="")
        return (place, []) if keys is None else (self._with_memory(place, tokens, keys), [self._made(keys)])

    def _with_memory(self, place: Place, tokens: Tensor, keys: int) -> Place:
        memory = self._made(keys).tensor
        memory = memory.transpose(0, 1).contiguous() if place.tokens_first else memory
        widths = (tokens.shape[2], memory.shape[2])
        return replace(place, given=as_one(tokens, memory), num_context=memory.shape[1], widths=widths, of_memory=True)

    def _output(self, products: list[ScoreProduct]) -> int | None:
        """Return the last operation that gives a row for each token and comes from no later attention."""
        flow, trace = self._flow, self._trace
        applied = {operation.number for operation, _ in flow.value_factors(products)}
        if trace.output is None or not applied:
            return None
        allowed = 0
        for number in applied:
            allowed |= flow.behind[number]
        after = [n for n in flow.passed_after(applied, trace.output) if n not in (OUTPUT, *applied)]
        able = [n for n in after if self._is_row(n) and not flow.behind[n] & ~allowed]
        own = [n for n in able if self._is_output(n)] or able  # those of an image come second
        apart = self._before_combining(own)
        return apart[-1] if apart else None

    def _before_combining(self, outputs: list[int]) -> list[int]:
        """Leave out the outputs behind a step that combines tokens again, as a convolution after attention does."""
        first = self._made(outputs[0]).tensor if outputs else None
        if first is None or len(outputs) == 1 or first.shape[:2] != self._sizes:
            return outputs
        change = torch.zeros_like(first)
        change[:, 0] = noise_of(first[:, 0].shape, seed=31).to(first.dtype)
        now = replay(self._trace, after={outputs[0]: lambda tensor: tensor + change})
        kept = []
        for number in outputs:
            made = self._made(number)
            moved, _, _ = rows_of((now[made.number] - made.tensor).abs(), self._sizes)
            if moved is None or (moved[:, 1:] > 1e-9).any():
                break
            kept.append(number)
        return kept

    def _ends(self, value: Value, at: Operation) -> "_End":
        sources = self._flow.sources(value, at)
        behind = 0
        for one in sources:
            behind |= self._flow.behind[one]
        projections = max((self._flow.projections[one] for one in sources), default=0)
        return _End(self._flow.passed(value, at), behind, projections)

    def _common(self, ends: "list[_End]", is_tokens: Callable[[int], bool]) -> int | None:
        """Return the tokens that all factors are projected from, without another attention in between, or else the
        last tokens that they come from."""
        if not all(end.passed for end in ends):
            return None
        able = [n for n in ends[0].passed if all(n in end.passed for end in ends) and is_tokens(n)]
        able = [n for n in able if all(end.behind == self._flow.behind[n] for end in ends)]
        for enough in (all, any):
            for n in able:
                if enough(end.projections > self._flow.projections[n] for end in ends):
                    return n
        return able[0] if able else None

    def _made(self, number: int) -> Value:
        return self._trace.x if number == X else self._trace.operations[number].outputs[0]

    def _is_tokens(self, number: int) -> bool:
        operation = None if number == X else self._trace.operations[number]
        able = operation is None or (self._flow.is_whole(operation) and operation.frames and not operation.in_place)
        return bool(able) and self._made(number).tensor.is_floating_point() and self._made(number).tensor.dim() > 2

    def _is_row(self, number: int) -> bool:
        return self._is_tokens(number) and rows_of(self._made(number).tensor, self._sizes)[0] is not None

    def _is_output(self, number: int) -> bool:
        """Return whether a value has a row for each token, and no image's rows and columns of them."""
        return self._is_row(number) and not rows_of(self._made(number).tensor, self._sizes)[2]

    def _is_memory(self, number: int) -> bool:
        shape = self._made(number).tensor.shape
        able = self._is_tokens(number) and len(shape) == 3 and self._sizes[0] in shape[:2]
        return able and not (self._fewer_keys and self._is_row(number))  # be the tokens on the last axis


def rows_of(tensor: Tensor, sizes: Sizes) -> tuple[Tensor | None, bool, tuple[int, ...]]:
    """Return a tensor as (batch, token, width), or None, whether tokens come first, and the axes of tokens if last.

    The tokens may be the pixels of an image: (batch, width, height, width of the image).
    """
    rows, tokens_first = joined([tensor], sizes) if tensor.dim() == 3 else (None, False)
    pixels = tuple(tensor.shape[2:])
    is_image = len(pixels) == 1 or min(pixels, default=0) > 1  # (batch, head, 1, head_dim) is none
    if rows is None and is_image and len(tensor) == sizes[0] and math.prod(pixels) == sizes[1]:
        return tensor.flatten(2).mT.contiguous(), False, pixels
    return rows, tokens_first, ()


@dataclass(frozen=True)
class _End:
    """A factor of a product.

    Attributes:
        passed: what all paths from x to it pass through, the nearest first.
        behind: the score products that it comes from.
        projections: the largest number of products with a sum on a path from x to it.
    """

    passed: list[int]
    behind: int
    projections: int
