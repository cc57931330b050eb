"""Find every product of queries and keys in a trace, however many attentions follow each other.

A score product multiplies two tensors that depend on x, or one with a projected memory that does not. A value product
consumes it: one of its factors comes from the scores and the other does not. Tokens that were mixed by one attention
go into the next, so score products that come from each other belong to different layers, and those that do not are
heads, chunks or steps of one attention.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

from course_lib.tracing import FACTORS, LAYOUT, ModuleCall, Operation, Trace, Value, product_of

from .operation_names import EXPONENTIALS, SOFTMAXES

SUMS = ("add", "add_", "baddbmm")


@dataclass(frozen=True, eq=False)
class ScoreProduct:
    """A product of queries and keys.

    Attributes:
        operation: the product.
        factors: queries and keys, in the order of the code.
        depth: how many score products follow each other up to this one, itself included; from 1.
    """

    operation: Operation
    factors: tuple[Value, Value]
    depth: int


def find_score_products(trace: Trace) -> list[ScoreProduct]:
    """Return the products whose scores are applied to values, or go through a softmax at least, in order."""
    search = _Search(trace)
    for operation in trace.operations:
        search.visit(operation)
    unapplied = _Unapplied(trace)
    depths: list[int] = []
    found: list[ScoreProduct] = []
    for index, (operation, factors) in enumerate(search.found):
        before = [depth for other, depth in enumerate(depths) if search.behind[index] >> other & 1]
        if index in search.used:
            before += [one.depth for one in unapplied.found if unapplied.leads_to(one, operation)]
            found.append(ScoreProduct(operation, factors, max(before, default=0) + 1))
        if index in search.used - search.applied:
            unapplied.found.append(found[-1])
        depths.append(found[-1].depth if index in search.used else max(before, default=0))
    return found


def factors_of(trace: Trace, operation: Operation) -> tuple[Value, Value] | None:
    """Return the two factors of a sum of products, or None if the operation is none."""
    if operation.name in FACTORS:
        factors = tuple(operation.args[index] for index in FACTORS[operation.name])
    elif operation.name == "sum" and isinstance(operation.args[0], Value):
        product = product_of(trace, operation.args[0])
        factors = () if product is None else product.args[:2]
    else:
        return None
    if len(factors) == 2 and all(isinstance(one, Value) for one in factors) and factors[0] is not factors[1]:
        return factors
    return None


class _Unapplied:
    """Scores whose weights are never applied, so that only the modules around them say what comes after them.

    Attributes:
        found: their products.
    """

    def __init__(self, trace: Trace) -> None:
        self.found: list[ScoreProduct] = []
        self._trace = trace
        self._after: dict[ModuleCall, set[int]] = {}

    def leads_to(self, product: ScoreProduct, later: Operation) -> bool:
        """Return whether a later operation, in a different module, reads what the module of a product returned."""
        own = [call for call in self._calls(product.operation) if later.number >= call.last]
        other = [call for call in self._calls(later) if product.operation.number < call.first]
        if not own or not other or own[0].module is other[0].module:
            return False
        if own[0] not in self._after:
            inside = self._trace.operations[own[0].first : own[0].last]
            reads = {one.number for one in inside if any(value.made_by is not None for value in one.inputs)}
            self._after[own[0]] = self._trace.descendants(reads)
        return later.number in self._after[own[0]]

    def _calls(self, operation: Operation) -> list[ModuleCall]:
        """Return the calls around an operation, from the outside inwards."""
        return [call for call in self._trace.calls if call.first <= operation.number < call.last]


class _State(NamedTuple):
    """What comes to an operation that depends on x, as sets of score products.

    Attributes:
        behind: all that it comes from.
        waiting: those of them that met no values yet.
        foreign: those with keys, or queries, that no x changes, if no other product came since.
        weighing: those of the foreign ones that went through a softmax.
    """

    behind: int = 0
    waiting: int = 0
    foreign: int = 0
    weighing: int = 0


class _Search:
    """One pass through a trace, in which sets of score products are bits of an integer.

    Attributes:
        found: products of two tensors that depend on x, each with its factors.
        behind: for each of them, the earlier ones that it comes from.
        applied, used: indices of those that a value product reads, and of those that it or a softmax reads.
    """

    def __init__(self, trace: Trace) -> None:
        self.found: list[tuple[Operation, tuple[Value, Value]]] = []
        self.behind: list[int] = []
        self.applied: set[int] = set()
        self.used: set[int] = set()
        self._trace = trace
        self._reached: dict[int, _State] = {}

    def visit(self, operation: Operation) -> None:
        states = [state for value in operation.inputs for state in self._states(operation, value)]
        if not states or is_new(operation):
            return
        now = _united(states)
        factors = factors_of(self._trace, operation)
        if factors:
            now = self._after_product(operation, factors, now)
        elif operation.name in SOFTMAXES or operation.name in EXPONENTIALS:
            self.used |= set(_indices(now.waiting | now.foreign))
            now = now._replace(foreign=0, weighing=now.weighing | now.foreign)
        elif operation.name in SUMS and now.waiting:  # a bias of positions, as in Transformer-XL
            now = now._replace(foreign=0)
        self._reached[operation.number] = now

    def _after_product(self, operation: Operation, factors: tuple[Value, Value], now: _State) -> _State:
        sides = [self._states(operation, value) for value in factors]
        bit = 1 << len(self.found)
        if all(sides):
            left, right = (_united(states) for states in sides)
            applied = (left.waiting | left.weighing) ^ (right.waiting | right.weighing)
            if applied:
                self.applied |= set(_indices(applied))
                self.used |= self.applied
                return _State(now.behind, left.waiting & right.waiting)
            waiting, foreign = now.waiting | bit, 0
        elif self._is_projected(factors[0 if sides[1] else 1]) or self._is_repeated(factors[0 if sides[1] else 1]):
            waiting, foreign = now.waiting, bit
        else:
            return _State(now.behind, now.waiting)
        self.found.append((operation, factors))
        self.behind.append(now.behind)
        return _State(now.behind | bit, waiting, foreign)

    def _is_projected(self, value: Value) -> bool:
        """Return whether a value that no x changes is the result of a product, as keys of a fixed memory are."""
        behind = self._trace.ancestors([value])
        return any(self._trace.operations[number].name in FACTORS for number in behind)

    def _is_repeated(self, value: Value) -> bool:
        """Return whether one tensor was repeated for all samples, as learned queries are and weights of layers not."""
        names = {self._trace.operations[number].name for number in self._trace.ancestors([value])}
        return "expand" in names and names <= {*LAYOUT, "mul"}

    def _states(self, operation: Operation, value: Value) -> list[_State]:
        """Return what is known of the operations that wrote a value, and of x."""
        if value.storage == self._trace.x.storage and value.made_by is None:
            return [_State()]
        writers = self._trace.writers_of(value, operation.number)
        return [self._reached[number] for number in writers if number in self._reached]


def is_new(operation: Operation) -> bool:
    """Return whether an operation reads only the shape and the dtype of its input."""
    return operation.name.endswith("_like") or operation.name.startswith("new_")


def _united(states: list[_State]) -> _State:
    return _State(*(reduce(or_, bits, 0) for bits in zip(*states, strict=True))) if states else _State()


def _indices(bits: int) -> Iterator[int]:
    return (index for index in range(bits.bit_length()) if bits >> index & 1)
