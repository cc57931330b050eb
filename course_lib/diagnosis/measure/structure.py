"""Find the products of attention in a run: projections, score products (Q K^T) and value products (P V).

The search ignores names, classes and layouts. Score products are the first products whose result depends on two tokens;
a value product multiplies what depends on them by what does not.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, Contraction, Operation, Trace, Value, contractions, outer_products

from .additive import additive_products
from .dependence import Dependence
from .operation_names import SOFTMAXES
from .projections import find_projections
from .run import NotFound, Run
from .token_sums import find_token_sum

CHOOSING = {"topk", "sort", "argsort"}


@dataclass(frozen=True, eq=False)
class Structure:
    """The products of attention, and the column of weights behind each element.

    Attributes:
        dependence: of each element on tokens and samples.
        products: every product with a sum.
        projections: the products of tokens with weights.
        columns: per value, for each element the column of weights that projected it.
        score_products: the products of queries and keys; at least one.
        score_descendants: the operations that a score flows into.
        value_products: the products of attention weights and values; may be empty.
        is_additive: whether the "score products" are sums of a query's and a key's numbers, and no dot products.
    """

    dependence: Dependence
    products: list[Contraction]
    projections: list[Contraction]
    columns: list[Tensor]
    score_products: list[Contraction]
    score_descendants: set[int]
    value_products: list[Contraction]
    is_additive: bool = False

    @property
    def run(self) -> Run:
        return self.dependence.run

    @property
    def trace(self) -> Trace:
        return self.dependence.run.trace

    @cached_property
    def head_dim(self) -> int:
        """The number of terms of a score, without padding."""
        product = self.score_products[0]
        columns = self.columns[product.left.number].flatten()[product.lefts[0]]
        return int((columns != UNLABELLED).sum()) or product.size

    @cached_property
    def projection_operations(self) -> set[int]:
        return {product.operation.number for product in self.projections}

    @cached_property
    def value_product_descendants(self) -> set[int]:
        """The operations that the result of a value product flows into."""
        return self.trace.descendants({product.operation.number for product in self.value_products})

    @cached_property
    def tokens_of_column(self) -> dict[int, frozenset[int]]:
        """The tokens that each column of weights projects.

        In joint attention, each stream of tokens has projections of its own, whose columns differ from the others'.
        """
        found: dict[int, set[int]] = {}
        for projection in self.projections:
            columns, tokens = self.columns[projection.out.number], self.dependence.token_of(projection.out)
            for column, token in sorted({*zip(columns.flatten().tolist(), tokens.flatten().tolist(), strict=True)}):
                found.setdefault(column, set()).add(token)
        return {column: frozenset(tokens) for column, tokens in found.items()}

    @cached_property
    def score_factors(self) -> list[Value]:
        """The queries and keys as factors of the score products."""
        return [value for product in self.score_products for value, _ in product.sides()]

    def is_projected(self, value: Value) -> bool:
        """Return whether any element comes from a column of weights."""
        return bool((self.columns[value.number] != UNLABELLED).any())

    def columns_in(self, value: Value) -> set[int]:
        """Return the columns that the elements come from, including UNLABELLED if an element comes from none."""
        return set(self.columns[value.number].flatten().tolist())

    def ancestors_of(self, values: list[Value]) -> list[Operation]:
        """Return the operations behind some values, in order."""
        return self.run.in_order(self.trace.ancestors(values))


@dataclass(frozen=True, eq=False)
class AfterStructure:
    """The attributes common to the stages after the structure."""

    structure: Structure

    @property
    def run(self) -> Run:
        return self.structure.dependence.run

    @property
    def trace(self) -> Trace:
        return self.structure.dependence.run.trace

    @property
    def dependence(self) -> Dependence:
        return self.structure.dependence


def find_structure(dependence: Dependence) -> Structure:
    """Find the products of attention.

    Raises:
        NotFound: no product compares tokens, nor does a sum that is read by one softmax alone.
    """
    trace = dependence.run.trace
    products = contractions(trace)
    projections, columns = find_projections(dependence, products)
    score_products = _without_indexers(dependence, _score_products(dependence, products, projections))
    is_additive = not score_products
    score_products = score_products or additive_products(dependence, products)
    if not score_products:
        raise NotFound("no product compares one token with another")
    descendants = trace.descendants({product.operation.number for product in score_products})
    value_products = _value_products(dependence, products, score_products, descendants)
    if not value_products:
        value_products = _value_products(dependence, outer_products(trace), score_products, descendants)
    # A prompt that only fills a cache, or a speculative token that is rejected, does not reach the output.
    reaching = [product for product in value_products if product.operation.number in dependence.run.live]
    found = reaching or value_products
    if is_additive and _is_compared_again(dependence, found):
        raise NotFound("no product compares one token with another, and another attention follows")
    return Structure(dependence, products, projections, columns, score_products, descendants, found, is_additive)


def _is_compared_again(dependence: Dependence, value_products: list[Contraction]) -> bool:
    """Return whether the results of value products go to another softmax, which would not be examined."""
    after = dependence.run.trace.descendants({product.operation.number for product in value_products})
    return any(one.name in SOFTMAXES for one in dependence.run.in_order(after & dependence.run.live))


def _without_indexers(dependence: Dependence, products: list[Contraction]) -> list[Contraction]:
    """Leave out products that only choose which keys are seen, as a sparse attention's indexer does with its top k."""
    run = dependence.run
    if len(products) < 2 or not any(operation.name in CHOOSING for operation in run.trace.operations):
        return products
    return [product for product in products if _flows_to_output(run, product.operation.number)] or products


def _flows_to_output(run: Run, start: int) -> bool:
    """Return whether the output depends on an operation through floating-point numbers, and not only by indices."""
    found = {start}
    for operation in run.trace.operations:
        numbers = (value for value in operation.inputs if value.tensor.is_floating_point())
        if any(n in found for value in numbers for n in run.trace.writers_of(value, operation.number)):
            found.add(operation.number)
    return run.output.made_by in found


def _score_products(
    dependence: Dependence, products: list[Contraction], projections: list[Contraction]
) -> list[Contraction]:
    def origin(product: Contraction) -> tuple:
        return (*product.operation.frames[:1], product.operation.name)

    able = [p for p in products if all(dependence.keeps_tokens_apart(side) for side, _ in p.sides())]
    origins = {origin(p) for p in able if dependence.combines_tokens(p.out) and not _sums_over_tokens(dependence, p)}
    if origins:
        return [p for p in able if origin(p) in origins]
    if find_token_sum(dependence, products) is not None:
        return []
    trace, made = dependence.run.trace, {p.operation.number for p in projections}
    found: list[Contraction] = []
    later: set[int] = set()
    for product in able:  # each token may only ever be compared with itself
        writers = [n for v, _ in product.sides() for n in trace.writers_of(v, product.factors[0].number)]
        if product.left is not product.right and product.operation.number not in made and not later & set(writers):
            found.append(product)
            later = trace.descendants({p.operation.number for p in found})
    return found


def _sums_over_tokens(dependence: Dependence, product: Contraction) -> bool:
    """Return whether each sum runs over all tokens, and both factors of each of its terms are of the same token."""
    num_tokens = dependence.sizes[1]
    if num_tokens < 3 or product.size < num_tokens:
        return False
    left, right = (dependence.token_of(value).flatten()[at] for value, at in product.sides())
    return torch.equal(left, right) and bool((left.amax(1) - left.amin(1) == num_tokens - 1).all())


def _value_products(
    dependence: Dependence, products: list[Contraction], score_products: list[Contraction], descendants: set[int]
) -> list[Contraction]:
    """Return the products of a descendant of the scores with a value that depends on tokens but not on scores."""
    trace, scored = dependence.run.trace, {product.operation.number for product in score_products}
    found = []
    for product in products:
        number, at = product.operation.number, product.factors[0].number
        if number <= min(scored) or number in scored:
            continue
        left, right = (bool(descendants.intersection(trace.writers_of(v, at))) for v, _ in product.sides())
        values = product.right if left else product.left
        if left != right and dependence.keeps_tokens_apart(values):
            found.append(product)
    return found
