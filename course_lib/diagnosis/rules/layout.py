"""Check how heads are split and merged: every row must be whole, and every result must reach its own row."""

import math
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.finding_pictures import picture_of_layout
from course_lib.diagnosis.measure import BATCH_NORMS, EXPONENTIALS, SEVERAL, SOFTMAXES, Attention, Rows, Structure
from course_lib.diagnosis.measure.projections import ColumnSet
from course_lib.diagnosis.registry import rule
from course_lib.diagnosis.rules.other_attention import REDUCED
from course_lib.tracing import UNLABELLED, VIEWS, Contraction, Operation, Value, propagate

JOINED = "rows of several tokens are compared, and so there are no weights of single tokens to examine"
TIED = "each score is a sum over several queries and keys, and so there are no weights of single tokens to examine"
MANY_COLUMNS = 10**6  # above any real number of columns, so that one label holds a query and a column


@rule()
def check_split(rows: Rows) -> Iterator[Finding]:
    """How the heads are split."""
    for row in rows.all:
        terms, keys, heads = row.product.size, len(set(row.keys)), len(row.all_query_columns)
        if heads > 1 and terms > keys:
            evidence = f"one sum runs over the values of {heads} heads: {terms} terms for {keys} keys"
            yield Finding.named("heads-averaged", evidence, row.product.operation.where)
            return
    tied = _tied_scores(rows.structure)
    if tied is not None:
        yield Finding.unseen("rows are tied", TIED, tied.where)
        return
    grouped = _joined_rows(rows)
    if grouped is not None:
        yield Finding.unseen(REDUCED, JOINED, grouped.where)
        return
    view = first_scramble(rows.structure)
    if view is None and any(len(set(row.value_columns)) > 1 and not row.exchanged for row in rows.all):
        view = _view_of_values(rows.structure)
    # A cache may repeat a token or lack one, but it does not make other columns its values.
    evidence = "" if rows.in_pieces and view is None else _scrambled(rows)
    if evidence:
        operation = view or rows.structure.score_products[0].operation
        draw = partial(picture_of_layout, rows.run)
        yield Finding.named("split-without-transpose", evidence, operation.where, draw)


def _joined_rows(rows: Rows) -> Operation | None:
    """Return the first product of rows that join several tokens and are fewer than these; None if none is."""
    product, num_tokens = rows.structure.score_products[0], rows.structure.dependence.sizes[1]
    sides = zip((rows.scores.left, rows.scores.right), product.out.tensor.shape[-2:], strict=False)
    joined = [size for side, size in sides if (side.tokens == SEVERAL).any()]
    fewer = all(1 < size < num_tokens and num_tokens % size == 0 for size in joined)
    return product.operation if joined and fewer else None


def _tied_scores(structure: Structure) -> Operation | None:
    """Return the first product whose results, which are scores, each sum over several queries and keys.

    Where the weights of another attention weigh what is compared, it is one of the products that apply these weights.
    """
    first = structure.score_products[0]
    if all(_is_tied(structure, *side) for side in first.sides()):
        return first.operation
    trace, applied = structure.trace, structure.value_products
    for product in applied:
        behind = trace.ancestors([one.out for one in applied if one.operation.number > product.operation.number])
        between = behind & trace.descendants({product.operation.number})
        again = any(trace.operations[number].name in (*SOFTMAXES, *EXPONENTIALS) for number in between)
        if again and any(_is_tied(structure, *side, least=2) for side in product.sides()):
            return product.operation  # values are summed in one column each
    return None


def _is_tied(structure: Structure, value: Value, at: Tensor, least: int = 1) -> bool:
    """Return whether each sum over a factor runs over several tokens, each with the same `least` columns or more."""
    tokens, order = structure.dependence.token_of(value).flatten()[at].sort(stable=True)
    columns = structure.columns[value.number].flatten()[at].gather(1, order)
    count = len(tokens[0].unique())
    if count < 2 or tokens.shape[1] % count or (tokens < 0).any() or (columns == UNLABELLED).any():
        return False
    tokens, columns = (one.unflatten(1, (count, -1)) for one in (tokens, columns))
    whole = (tokens == tokens[..., :1]).all() and (tokens[..., 0].diff() > 0).all()
    several = len(columns[0, 0].unique()) >= least
    return bool(several and whole and (columns == columns[:, :1]).all())


def _scrambled(rows: Rows) -> str:
    """Describe how the rows of a head are scrambled; "" if they are whole."""
    for factors, name in ((rows.scores.left, "first"), (rows.scores.right, "second")):
        if (factors.tokens == SEVERAL).any():
            return f"a row of the {name} factor of the scores holds elements of several tokens"
    streams = rows.structure.tokens_of_column
    found: dict[tuple, set[ColumnSet]] = {}  # by head, role and the tokens that the same projection reads
    for row in rows.all:
        for name, columns in (("keys", row.key_columns), ("values", row.value_columns)):
            for one in columns:
                found.setdefault((row.head, name, streams.get(one[0])), set()).add(one)
        if len(set(row.keys)) < len(row.keys) and len({*row.key_columns, *row.value_columns}) > 2:
            return f"in head {row.head}, the keys of query {row.query} belong to the tokens {row.keys}"
    for (head, name, _), sets in found.items():
        if len(sets) > 1:
            return f"the {name} of head {head} come from {len(sets)} different sets of columns"
    return ""


def first_scramble(structure: Structure) -> Operation | None:
    """Return the first view that reorders an axis of tokens."""
    factors = [value for product in structure.value_products for value, _ in product.sides()]
    for operation in structure.ancestors_of([*structure.score_factors, *factors]):
        if operation.name in VIEWS:
            before, after = operation.inputs[0], operation.outputs[0]
            if _mixes_axes(structure, after) and not _mixes_axes(structure, before):
                return operation
    return None


def _view_of_values(structure: Structure) -> Operation | None:
    """Return the first view of what becomes the values, and not the queries or the keys, after its projection."""
    own = structure.ancestors_of([value for product in structure.value_products for value, _ in product.sides()])
    others = structure.trace.ancestors(structure.score_factors) | structure.score_descendants
    views = (one for one in own if one.name in VIEWS and one.number not in others and one.where)
    splits = (one for one in views if one.inputs[0].tensor.dim() < one.outputs[0].tensor.dim())
    return next((one for one in splits if structure.is_projected(one.outputs[0])), None)


def _mixes_axes(structure: Structure, value: Value) -> bool:
    """Return whether some axis runs through tokens and columns at once."""
    tokens, columns = structure.dependence.token_of(value), structure.columns[value.number]
    known = not (tokens < 0).any() and not (columns == UNLABELLED).any()
    return known and _cross(tokens, columns)


@rule()
def check_merge(attention: Attention) -> Iterator[Finding | str]:
    """How the heads are merged."""
    reached = attention.influence.output_rows_of_query
    num_tokens = len(reached)
    stray = (reached & ~torch.eye(num_tokens, dtype=torch.bool)).nonzero()
    if not len(stray) or _attends_again(attention.structure) or _tied_scores(attention.structure) is not None:
        return
    behind = _behind_attention(attention.structure)
    if behind and not _views_that_cross(attention):
        yield f"behind attention, {behind}"
        return
    row, query = stray[0].tolist()
    if attention.options.has_call and _are_reordered(reached) and not _views_that_cross(attention):
        yield f"`call` returns the tokens in another order: output {row} is that of token {query} of x"
        return
    if reached.diagonal().all() and not _views_that_cross(attention):
        yield f"outputs depend on the results of several queries, such as output {row} on those of {row} and {query}"
        return
    operation = _first_crossing(attention)
    crossed = f"{len(stray)} of {num_tokens**2} pairs of tokens are crossed"
    evidence = f"what query {query} found reaches row {row} of the output; {crossed}"
    where, draw = operation.where if operation else None, partial(picture_of_layout, attention.run)
    yield Finding.named("merge-without-transpose", evidence, where, draw)


def _are_reordered(reached: torch.Tensor) -> bool:
    """Return whether each query reaches one row (row, query) and each row holds one query, in whatever order."""
    return bool((reached.sum(0) == 1).all() and (reached.sum(1) == 1).all())


def _attends_again(structure: Structure) -> bool:
    """Return whether tokens attend again in another layer, so that every result reaches every row."""
    dependence, value_products = structure.dependence, {p.operation.number for p in structure.value_products}
    after = structure.value_product_descendants - value_products
    later = [(one.left, one.right) for one in structure.products if one.operation.number in after]
    of_input = [sides for sides in later if all(map(dependence.on_input, sides))]
    return any(dependence.combines_tokens(value) for sides in of_input for value in sides)


def _behind_attention(structure: Structure) -> str:
    """Name what combines the results of several queries as a layer of its own, a norm or a convolution; "" without."""
    for one in structure.run.in_order(structure.value_product_descendants & structure.run.live):
        if one.where and one.name in BATCH_NORMS and structure.dependence.combines_tokens(one.outputs[0]):
            return f"{one.where} normalises over the tokens, so that each output depends on all queries"
        if one.where and one.name == "convolution" and _slides_over_tokens(structure, one):
            return f"{one.where} convolves over the tokens, so that an output depends on several queries"
    return ""


def _slides_over_tokens(structure: Structure, convolution: Operation) -> bool:
    """Return whether the axes that a kernel of more than one slides over are those of the tokens."""
    made, kernel = convolution.outputs[0].tensor.shape[2:], convolution.inputs[1].tensor.shape[2:]
    return math.prod(made) == structure.dependence.sizes[1] and max(kernel) > 1


def _first_crossing(attention: Attention) -> Operation | None:
    """Return the first view after the last value product that puts queries on an axis of columns, or the last view."""
    found = _views_that_cross(attention) or _views_behind(attention)[::-1]
    return found[0] if found else None


def _views_that_cross(attention: Attention) -> list[Operation]:
    """Return the views behind the value products that put queries on an axis of columns."""
    structure = attention.structure
    end = min if attention.rows.in_pieces else max  # each piece is merged before the next one
    last = end(product.operation.number for product in structure.value_products)
    labels = propagate(attention.trace, {p.out.number: _labels(attention.rows, p) for p in structure.value_products})
    found = []
    for operation in _views_behind(attention):
        before, now = (labels[v.number] for v in (operation.inputs[0], operation.outputs[0]))
        if operation.number >= last and _crosses(now) and not _crosses(before):
            found.append(operation)
    return found


def _views_behind(attention: Attention) -> list[Operation]:
    after, names = attention.structure.value_product_descendants, (*VIEWS, "as_strided")
    return [op for op in attention.run.live_operations if op.number in after and op.name in names]


def _labels(rows: Rows, product: Contraction) -> torch.Tensor:
    """Return the query and column, counted through all heads, of each element of a value product's result."""
    labels = torch.full((product.out.tensor.numel(),), UNLABELLED)
    for row in rows.all:
        if row.product is product:
            columns = row.head * len(row.outputs) + torch.arange(len(row.outputs))
            labels[torch.tensor(row.outputs)] = row.query * MANY_COLUMNS + columns
    return labels.view(product.out.tensor.shape)


def _crosses(labels: torch.Tensor) -> bool:
    """Return whether an axis runs through queries and columns at once."""
    return not (labels == UNLABELLED).all() and _cross(labels // MANY_COLUMNS, labels % MANY_COLUMNS)


def _cross(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two labels of each element change along the same axis."""
    return any(bool((one.diff(dim=axis) != 0).any() and (other.diff(dim=axis) != 0).any()) for axis in range(one.dim()))
