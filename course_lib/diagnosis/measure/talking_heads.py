"""Leave out the products that combine scores or weights of heads, as talking heads do, so that each head is seen alone.

A combined weight is a sum over heads, so neither the scale nor the sum of a row of weights tells of one head.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from course_lib.tracing import (
    FACTORS,
    Contraction,
    DispatchWatch,
    Operation,
    Trace,
    Value,
    code_frames,
    contractions,
    operation_name,
    propagate,
    tensors_in,
)

from .operation_names import BATCH_NORMS, LAYER_NORMS
from .place import Point, point_of
from .score_products import find_score_products

NORMS = (*LAYER_NORMS, *BATCH_NORMS)
ADDITIONS = ("add", "add_")

Combinations = Mapping[Point, int]  # an operation -> which of its arguments to take in place of its result


def find_talking_heads(trace: Trace) -> Combinations:
    """Return the products of one attention that sum each pair of tokens over the heads, and norms of these sums."""
    able = [one for one in trace.operations if _keeps_shape(one)]
    scores = find_score_products(trace) if able else []
    if len(scores) != 1:
        return {}
    made = scores[0].operation.outputs[0]
    size = made.tensor.shape[-2:].numel()
    from_input, found = trace.descendants_of_input(), dict[Point, int]()
    start = {made.number: torch.arange(made.tensor.numel()).view(made.tensor.shape)}
    products = {product.operation.number: product for product in contractions(trace)}
    labels, heads = propagate(trace, start), 0
    for operation in able:
        product = products.get(operation.number)
        index = _combined(product, labels, size, from_input) if product else None
        heads = heads if index is None or product is None else product.size
        if product is None and heads:
            meant = operation.name in NORMS or _adds_bias(operation, heads, from_input)
            index = 0 if meant or _adds_combined(operation, labels, start) else None
        if index is None or not (labels[operation.args[index].number] >= 0).all():
            continue
        before = labels[operation.args[index].number].contiguous()
        start[operation.outputs[0].number] = before.view(operation.outputs[0].tensor.shape)
        labels = propagate(trace, start)
        found[point_of(trace, operation.number)] = index
    return found


def _keeps_shape(operation: Operation) -> bool:
    if operation.name not in (*FACTORS, "convolution", *NORMS, *ADDITIONS) or not operation.outputs:
        return False
    shape = operation.outputs[0].tensor.shape
    return any(isinstance(one, Value) and one.tensor.shape == shape for one in operation.args)


def _adds_bias(operation: Operation, heads: int, from_input: set[int]) -> bool:
    """Return whether an operation adds a number for each head to what a product has combined."""
    bias = operation.inputs[1] if operation.name in ADDITIONS and len(operation.inputs) > 1 else None
    return bias is not None and bias.made_by not in from_input and bias.tensor.shape == (heads,)


def _adds_combined(operation: Operation, labels: list[Tensor], combined: Mapping[int, Tensor]) -> bool:
    """Return whether an operation adds what a product has combined to what it was combined from."""
    numbers = [one.number for one in operation.inputs]
    if operation.name not in ADDITIONS or len(numbers) != 2 or combined.keys().isdisjoint(numbers):
        return False
    one, other = (labels[number] for number in numbers)
    return one.shape == other.shape and bool((one >= 0).all()) and bool((one == other).all())


def _combined(product: Contraction, labels: list[Tensor], size: int, from_input: set[int]) -> int | None:
    """Return the argument that holds scores if the product sums each pair of tokens over several heads."""
    _, *indices = product.factors
    for index, (value, at), (weights, _) in zip(indices, product.sides(), product.sides()[::-1], strict=True):
        if value.tensor.shape != product.out.tensor.shape or weights.made_by in from_input or product.size < 2:
            continue
        label = labels[value.number].flatten()
        pairs, heads = label[at] % size, (label[at] // size).sort(dim=1).values
        same = (pairs == (label % size)[:, None]).all() and (heads.diff(dim=1) > 0).all()
        if bool(same) and bool((label >= 0).all()):
            return index
    return None


class UncombinedHeads(DispatchWatch):
    """Runs code without the operations that combine heads."""

    def __init__(self, stop: FrameType, caller: CodeType | None, combinations: Combinations) -> None:
        super().__init__(stop)
        self._caller, self._combinations = caller, combinations
        self._names = {point.name for point in combinations}
        self._seen: Counter = Counter()

    def call(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        name = operation_name(func)
        if name not in self._names:
            return func(*args, **kwargs)
        frames = code_frames(self.author_frames(), self._caller)
        point = Point(name, frames, self._seen[name, frames])
        self._seen[name, frames] += 1
        if point in self._combinations and name in ADDITIONS:
            return args[0]
        result = func(*args, **kwargs)
        if point not in self._combinations:
            return result
        out = next(tensors_in(result))
        likeliest = [args[self._combinations[point]], *args]  # another number of samples may exchange the factors
        heads = next((one.clone() for one in likeliest if isinstance(one, Tensor) and one.shape == out.shape), out)
        return heads if result is out else (heads, *result[1:])


@contextmanager
def without(combinations: Combinations, stop: FrameType, caller: CodeType | None) -> Iterator[None]:
    """Leave out some operations of what runs meanwhile."""
    if not combinations:
        yield
        return
    watch = UncombinedHeads(stop, caller, combinations)
    try:
        with watch:
            yield
    finally:
        watch.let_go()
