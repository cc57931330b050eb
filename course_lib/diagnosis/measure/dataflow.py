"""Follow x through a run: which operations all of its paths to a value, or from a value to the output, pass through."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from course_lib.tracing import FACTORS, Operation, Trace, Value

from .score_products import ScoreProduct, factors_of, is_new

X, OUTPUT = -1, -2  # the numbers that stand for x and for the output in place of an operation


@dataclass(eq=False)
class Tree:
    """Nodes, each below the nearest node that all paths from the root to it pass through (its dominator).

    Attributes:
        above: node -> its dominator.
        depth: node -> how many nodes lie above it.
    """

    above: dict[int, int] = field(default_factory=dict)
    depth: dict[int, int] = field(default_factory=dict)

    def add(self, node: int, before: Iterable[int]) -> None:
        """Add a node after the nodes that lead to it; only the root has none."""
        dominator = self.meet(before)
        self.depth[node] = 0 if dominator is None else self.depth[dominator] + 1
        if dominator is not None:
            self.above[node] = dominator

    def meet(self, nodes: Iterable[int]) -> int | None:
        """Return the nearest node that all paths to any of these nodes pass through; None without nodes."""
        found: int | None = None
        for node in nodes:
            one, other = node, node if found is None else found
            while one != other:
                if self.depth[one] < self.depth[other]:
                    one, other = other, one
                one = self.above[one]
            found = one
        return found

    def chain(self, node: int | None) -> list[int]:
        """Return a node and those above it, the nearest first."""
        found: list[int] = []
        while node is not None:
            found.append(node)
            node = self.above.get(node)
        return found


class Dataflow:
    """How x flows through a trace.

    Attributes:
        trace: of a run that returned a tensor.
        behind: operation, or X -> the score products that it comes from, itself included, as bits of an integer.
        projections: operation, or X -> the largest number of products with a sum on a path from x to it.
    """

    def __init__(self, trace: Trace, products: Sequence[ScoreProduct]) -> None:
        self.trace = trace
        self.behind, self.projections = {X: 0}, {X: 0}
        self.bits = {product.operation.number: 1 << index for index, product in enumerate(products)}
        self._from_x = Tree()
        self._from_x.add(X, ())
        for operation in trace.operations:
            before = [] if is_new(operation) else [n for one in operation.inputs for n in self.sources(one, operation)]
            if before:
                self._visit(operation, before)
        self._to_output: Tree | None = None

    def sources(self, value: Value, at: Operation) -> list[int]:
        """Return the operations that a value comes from when an operation reads it, and X, as far as x changes it."""
        from_x = [X] if value.storage == self.trace.x.storage and value.made_by is None else []
        return from_x + [n for n in self.trace.writers_of(value, at.number) if n in self.behind]

    def passed(self, value: Value, at: Operation) -> list[int]:
        """Return what all paths from x to a factor of an operation pass through, the nearest first; [] without x."""
        return self._from_x.chain(self._from_x.meet(self.sources(value, at)))

    def passed_after(self, operations: Iterable[int], output: Value) -> list[int]:
        """Return what all paths from some operations to the output pass through, the nearest first."""
        tree = self._backwards(output)
        return tree.chain(tree.meet(n for n in operations if n in tree.depth))

    def is_whole(self, operation: Operation) -> bool:
        """Return whether all that is read of an operation is its first result, unlike the parts of a split."""
        return bool(operation.outputs) and not any(value.number in self._read for value in operation.outputs[1:])

    @cached_property
    def _read(self) -> set[int]:
        return {value.number for operation in self.trace.operations for value in operation.inputs}

    def value_factors(self, group: Sequence[ScoreProduct]) -> list[tuple[Operation, Value]]:
        """Return the first products of what comes from some scores with what does not, and that other factor."""
        scores = {product.operation.number for product in group}
        from_scores = self.trace.descendants(scores)
        after, found = set[int](), list[tuple[Operation, Value]]()  # what comes from a product that was found
        for number in sorted(from_scores):
            operation = self.trace.operations[number]
            if any(self._is_after(after, one, operation) for one in operation.inputs):
                after.add(number)
            if number in scores:
                continue
            sides = [one for one in factors_of(self.trace, operation) or () if self._is_new(one, operation, after)]
            others = [one for one in sides if not self._is_after(from_scores, one, operation)]
            if len(sides) == 2 and len(others) == 1:
                found.append((operation, others[0]))
                after.add(number)
        return found

    def _is_new(self, value: Value, at: Operation, after: set[int]) -> bool:
        """Return whether x changes a factor that none of some operations made."""
        return bool(self.sources(value, at)) and not self._is_after(after, value, at)

    def _is_after(self, operations: set[int], value: Value, at: Operation) -> bool:
        """Return whether one of some operations made what an operation reads."""
        return not operations.isdisjoint(self.trace.writers_of(value, at.number))

    def _visit(self, operation: Operation, before: list[int]) -> None:
        number = operation.number
        self._from_x.add(number, before)
        behind = self.bits.get(number, 0)
        for one in before:
            behind |= self.behind[one]
        self.behind[number] = behind
        is_product = operation.name in FACTORS or operation.name == "convolution"
        self.projections[number] = max(self.projections[one] for one in before) + is_product

    def _backwards(self, output: Value) -> Tree:
        """Return the tree whose root is OUTPUT."""
        if self._to_output is None:
            readers: dict[int, list[int]] = {}
            live = self.trace.ancestors([output])
            for number in live:
                operation = self.trace.operations[number]
                for value in operation.inputs:
                    for source in self.sources(value, operation):
                        readers.setdefault(source, []).append(number)
            tree = Tree()
            tree.add(OUTPUT, ())
            for number in self.trace.writers_of(output, len(self.trace.operations)):
                readers.setdefault(number, []).append(OUTPUT)
            for number in sorted(live & set(self.behind), reverse=True):
                after = [one for one in readers.get(number, []) if one in tree.depth]
                if after:  # what is written into memory after the last time that it is read leads nowhere
                    tree.add(number, after)
            self._to_output = tree
        return self._to_output
