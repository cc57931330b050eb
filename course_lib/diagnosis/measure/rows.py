"""Find the scores, keys and weights behind each row of a value product's result."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, Contraction, Operation, replay

from .projections import ColumnSet, column_sets
from .run import changed
from .scores import Scores
from .structure import AfterStructure, Structure

NO_WEIGHT = 1e-12
# Operations that write elements into others.
WRITES = (
    "copy_", "index_copy_", "index_put_", "scatter_", "slice_scatter", "select_scatter", "index_copy", "index_put",
    "scatter",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What one query of one head attends to. Each list has an entry per key.

    Attributes:
        product: the value product.
        sample, query: of the token that attends; negative if unknown.
        head: index, in the order of the columns that make the queries.
        keys: the token of each key, according to its value.
        score_keys: the token of each key, according to its score; different if a value is misplaced.
        positions: the index of each key among all terms of the sum.
        scores: the index of each key's score among all scores.
        weights: the factors of the values.
        outputs: elements of the product's result, one per column of the values.
        query_columns, key_columns, value_columns: the columns of weights behind them.
        all_query_columns: those of all scores; more than one set if a sum runs over several heads.
        tokenless: how many terms that belong to no token have a weight.
    """

    product: Contraction
    sample: int
    query: int
    head: int
    keys: list[int]
    score_keys: list[int]
    positions: list[int]
    scores: list[int]
    weights: list[float]
    outputs: list[int]
    query_columns: ColumnSet
    key_columns: list[ColumnSet]
    value_columns: list[ColumnSet]
    all_query_columns: frozenset[ColumnSet]
    tokenless: int

    @property
    def exchanged(self) -> tuple[int, ...]:
        """Two tokens of which each has its key from the columns of weights of the other one's value, or none."""
        roles = list(zip(self.key_columns, self.value_columns, strict=True))
        for token, (key, value) in zip(self.keys, roles, strict=True):
            if key != value and UNLABELLED not in (key[1], value[1]) and (value, key) in roles:
                return token, self.keys[roles.index((value, key))]
        return ()


@dataclass(frozen=True, eq=False)
class Rows(AfterStructure):
    """What all queries of all heads attend to.

    Attributes:
        scores: of the run.
        all: one row per sample, head and query, or more if a row is computed in parts; at least one.
    """

    scores: Scores
    all: list[Row]

    @cached_property
    def num_heads(self) -> int:
        return 1 + max(row.head for row in self.all)

    @cached_property
    def first_of_head(self) -> dict[int, Row]:
        return {row.head: row for row in reversed(self.all)}

    @cached_property
    def queries_at_once(self) -> int:
        """The largest number of queries that one value product processes."""
        passes: dict[int, set[int]] = {}
        for row in self.all:
            passes.setdefault(row.product.operation.number, set()).add(row.query)
        return max(map(len, passes.values()))

    @property
    def in_pieces(self) -> bool:
        """Whether the queries of a sample are processed in several passes, as with a cache."""
        several = len(self.structure.value_products) > 1
        return several and self.queries_at_once < self.dependence.sizes[1] - self.run.options.num_context

    @cached_property
    def is_cached(self) -> bool:
        """Whether it is in pieces and keeps keys or values from one to the next, which a loop over queries does not.

        Once the first query is compared, further tokens are projected, written, or joined to those before.
        """
        if not self.in_pieces:
            return False
        structure = self.structure
        first = min(product.operation.number for product in structure.score_products)
        factors = [value for one in structure.score_products for value, _ in one.sides()]
        values = [self.scores.weights_and_values(one)[1][0] for one in structure.value_products]
        made = [one for one in structure.ancestors_of([*factors, *values]) if one.number > first]
        return any(one.name in (*WRITES, "cat", "stack") and self._joins(one) for one in made) or self._projects(first)

    def _joins(self, operation: Operation) -> bool:
        """Return whether an operation puts elements of different tokens together."""
        tokens = [set(self.dependence.token_of(one).flatten().tolist()) for one in operation.inputs]
        known = [one - {UNLABELLED} for one in tokens if one - {UNLABELLED}]
        return operation.name in WRITES or (len(known) > 1 and not set.intersection(*known))

    def _projects(self, first: int) -> bool:
        """Return whether keys or values of further tokens are projected after an operation."""
        own = {column for row in self.all for one in (*row.key_columns, *row.value_columns) for column in one}
        before: set[int] = set()
        for one in sorted(self.structure.projections, key=lambda one: one.operation.number):
            if self.structure.columns_in(one.out) & own:
                tokens = set(self.dependence.token_of(one.out).flatten().tolist()) - {UNLABELLED}
                if one.operation.number > first and not tokens <= before:
                    return True
                before |= tokens
        return False

    def score_product(self, row: Row) -> Contraction:
        """Return the product that made a row's scores."""
        return self.scores.origin_of(row.scores[0])[0]


def find_rows(scores: Scores) -> Rows | None:
    """Find the rows of all value products; None if no known score reaches a value product."""
    rows = [row for product in scores.structure.value_products for row in _rows_of(scores, product)]
    rows = _without_padding(scores, rows)
    return Rows(scores.structure, scores, list(_with_heads(rows, scores.structure))) if rows else None


def _without_padding(scores: Scores, rows: list[Row]) -> list[Row]:
    """Leave out the rows of queries that come from no token, as padding does, if their results are cut off again."""
    padding, run = [row for row in rows if row.query == UNLABELLED], scores.run
    if len(padding) in (0, len(rows)):
        return rows
    moves: dict[int, Tensor] = {}
    for row in padding:
        move = moves.setdefault(row.product.operation.number, torch.zeros_like(row.product.out.tensor))
        move.view(-1)[row.outputs] = 1.0
    seen = replay(scores.trace, after={number: partial(torch.add, move) for number, move in moves.items()})
    reached = bool(changed(seen[run.output.number], run.output.tensor).any())
    return rows if reached else [row for row in rows if row.query != UNLABELLED]


def _rows_of(scores: Scores, product: Contraction) -> Iterator[Row]:
    (weights, weights_at), (values, values_at) = scores.weights_and_values(product)
    groups: dict[int, list[int]] = {}  # the elements of the result that come from the same weights
    for element, first in enumerate(weights_at[:, 0].tolist()):
        groups.setdefault(first, []).append(element)
    leading = torch.tensor([elements[0] for elements in groups.values()])
    labels = scores.labels[weights.number].flatten()[weights_at[leading]].tolist()
    tokens = scores.dependence.token_of(values).flatten()[values_at[leading]].tolist()
    applied = weights.tensor.flatten()[weights_at[leading]].tolist()
    columns = scores.structure.columns[values.number].flatten()
    queries, keys = (scores.left, scores.right) if scores.keys_are_right(product) else (scores.right, scores.left)
    for elements, label, token, weight in zip(groups.values(), labels, tokens, applied, strict=True):
        scored = [c for c, one in enumerate(label) if one != UNLABELLED]
        terms = [c for c in scored if token[c] != UNLABELLED]
        if not terms:
            continue
        compared = [label[c] for c in terms]
        yield Row(
            product,
            sample=int(scores.samples[compared[0]]),
            query=int(queries.tokens[compared[0]]),
            head=-1,
            keys=[token[c] for c in terms],
            score_keys=keys.tokens[compared].tolist(),
            positions=terms,
            scores=compared,
            weights=[weight[c] for c in terms],
            outputs=elements,
            query_columns=queries.columns[compared[0]],
            key_columns=[keys.columns[one] for one in compared],
            value_columns=column_sets(columns[values_at[elements].T[terms]]),
            all_query_columns=frozenset(queries.columns[one] for one in compared),
            tokenless=sum(abs(weight[c]) > NO_WEIGHT for c in scored if token[c] == UNLABELLED),
        )


def _with_heads(rows: list[Row], structure: Structure) -> Iterator[Row]:
    """Number heads in the order of their columns; rows of the same query and columns are parts or further heads.

    In joint attention, where streams of tokens have projections of their own, heads are numbered in each stream. The
    rows of a token that has more parts than others are left out: it is copied, as a class token is to each frame.
    """
    parts: dict[tuple, list[set[int]]] = {}
    keys = []
    for row in rows:
        taken = parts.setdefault((row.sample, row.query, row.query_columns), [])
        seen = {key for key, weight in zip(row.keys, row.weights, strict=True) if weight} or set(row.keys)
        part = next((number for number, keys_of in enumerate(taken) if not keys_of & seen), len(taken))
        if part == len(taken):
            taken.append(set())
        taken[part] |= seen
        keys.append((*row.query_columns, part))
    least = min(map(len, parts.values()))
    once = [len(parts[row.sample, row.query, row.query_columns]) == least for row in rows]
    rows, keys = list(compress(rows, once)), list(compress(keys, once))
    streams: dict[frozenset[int] | None, list[tuple]] = {}
    for key in sorted(set(keys)):
        streams.setdefault(structure.tokens_of_column.get(key[0]), []).append(key)
    together = len(set(map(len, streams.values()))) == 1 and _are_disjoint(streams)
    order = {
        key: head for group in (streams.values() if together else [sorted(set(keys))]) for head, key in enumerate(group)
    }
    for row, key in zip(rows, keys, strict=True):
        yield replace(row, head=order[key])


def _are_disjoint(streams: Iterable[frozenset[int] | None]) -> bool:
    """Return whether no token is in two streams."""
    tokens = [token for stream in streams for token in stream or ()]
    return len(tokens) == len(set(tokens))
