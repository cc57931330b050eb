"""Queries, keys and values must come from different columns of weights."""

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import (
    branch_by_choice,
    locate_passed,
    locate_renamed_role,
    locate_shared_module,
    names_in,
)
from course_lib.diagnosis.measure import Attention, Row, column_sets, role_of, unused_roles
from course_lib.diagnosis.measure.projections import ColumnSet
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, Operation, SourceLine, Value, line_at, statement_of

KEYWORD = re.compile(r"\b\w+=(?!=)")  # of an argument
SHARED = re.compile(r"(?<![a-z])(qk|kq)(?!v)|shared|tied", re.I)  # as in `to_qk`


@rule(of_dot_products=True)
def check_projections(attention: Attention) -> Iterator[Finding | str]:
    """The projections of queries, keys and values."""
    rows = attention.rows.all
    row = next((row for row in rows if _shares_a_role(row)), None)
    if row is None or not attention.structure.projections:
        return
    shared, unused = _rows_that_share(rows), unused_roles(attention.structure)
    product = attention.rows.score_product(row)
    roles = max(shared, key=lambda pair: shared[pair])
    keys_only = all((number > 0) == (pair == ("keys", "values")) for pair, number in shared.items())
    names_values = any(role_of(name) == "values" for name in names_in(product.operation.statement.source))
    count = f"in {shared[roles]} of {len(rows)} rows"
    passed = locate_passed(product.operation, "keys", "values")
    own_keys = any("[" not in name for name in attention.run.unused_parameters)  # not a part of packed weights
    branch = _locate_branch(attention, row, roles, {"keys"})
    chosen = None if unused else branch_by_choice(attention.run.subject, _readers_of(attention, row.key_columns[0]))
    of_values = own_keys or names_values or passed or branch is None or _renames_values(branch)
    values_used = "values" not in unused or role_of_columns(attention, row.key_columns[0]) == "values"
    if keys_only and values_used and ("keys" in unused or names_values) and of_values:
        evidence = f"the scores are products of queries and values, {count}"
        where = passed or branch or product.operation.where
        unused_keys = "; the keys are never used" if "keys" in unused else ""
        yield Finding.named("scores-from-values", f"{evidence}{unused_keys}", where)
    elif chosen is not None:
        yield f"{' and '.join(roles)} share a projection, because of `{chosen}`"
    elif unused or not attention.run.subject.is_module or _is_by_mistake(attention, row):
        evidence = f"{' and '.join(roles)} come from the same columns of weights, {count}"
        idle = f"; those of the {', '.join(sorted(unused))} don't change the output" if unused else ""
        renamed = locate_renamed_role(product.operation, unused)
        read_at = row.product.operation if "values" in unused else product.operation
        shared_at = locate_shared_module(attention.run.subject, _names_of(attention, row.key_columns[0]))
        where = shared_at or renamed or _locate_branch(attention, row, roles, unused) or read_at.where
        yield Finding.named("projection-reused", f"{evidence}{idle}", where)
    # otherwise one projection is meant to serve two roles


def _rows_that_share(rows: list[Row]) -> dict[tuple[str, str], int]:
    """Return in how many rows two roles come from the same columns of weights."""
    return {
        ("queries", "values"): sum(all(one == row.query_columns for one in row.value_columns) for row in rows),
        ("queries", "keys"): sum(all(one == row.query_columns for one in row.key_columns) for row in rows),
        ("keys", "values"): sum(row.key_columns == row.value_columns for row in rows),
    }


def _shares_a_role(row: Row) -> bool:
    if any(largest == UNLABELLED for _, largest, _ in (*row.key_columns, *row.value_columns)):
        return False  # they are sums over several columns, such as means of heads
    return row.key_columns[0] in (row.value_columns[0], row.query_columns) or row.value_columns[0] == row.query_columns


def _is_by_mistake(attention: Attention, row: Row) -> bool:
    """Return whether the same weights are applied twice, although their name does not say that they are shared."""
    return not any(map(SHARED.search, _names_of(attention, row.key_columns[0]))) and _is_applied_twice(attention, row)


def _is_applied_twice(attention: Attention, row: Row) -> bool:
    """Return whether the same weights are multiplied with the same token more than once.

    A loop over tokens does not, nor does a convolution that shortens keys and values after their own projections.
    """
    structure, column = attention.structure, row.key_columns[0][0]
    first: Tensor | None = None
    tokens: list[set[int]] = []
    for product in structure.projections:
        given = product.left if structure.dependence.on_input(product.left) else product.right
        first = given.tensor if first is None and column in structure.columns_in(product.out) else first
        differs = first is not None and given.tensor.shape == first.shape and not torch.equal(given.tensor, first)
        if column in structure.columns_in(product.out) and not differs:
            tokens.append(set(structure.dependence.token_of(product.out).flatten().tolist()))
    return sum(map(len, tokens)) > len(set().union(*tokens))


def _locate_branch(attention: Attention, row: Row, roles: tuple[str, str], unused: set[str]) -> SourceLine | None:
    """Find the first line that computes the wrong role but not the right one.

    The two `roles` share columns in `row`; if one of them is in `unused` (its own weights are not used), it is wrong.
    """
    structure, trace = attention.structure, attention.trace
    product = attention.rows.score_product(row)
    right, wrong = roles[::-1] if roles[0] in unused and roles[1] not in unused else roles
    values = _values_of_roles(attention, row, roles)
    own = trace.ancestors(values[wrong]) - trace.ancestors(values[right]) - structure.score_descendants
    own -= {one.number for one in trace.operations if one.by(trace.caller)}  # such as an empty cache
    first = min(own & structure.projection_operations or own, default=None)  # what comes before only arranges tokens
    if first is None:
        return None
    others = [attention.run.trace.operations[number] for number in trace.ancestors(values[right]) - {first}]
    return _line_of_its_own(trace.operations[first], [product.operation, row.product.operation, *others])


def _renames_values(line: SourceLine) -> bool:
    """Return whether a line makes the keys of the values, by their names: `key = split(value)`."""
    made, _, read = line.text.partition(" = ")
    pairs = [(made, read)]
    with suppress(SyntaxError):
        sides = [ast.parse(one.strip(), mode="eval").body for one in (made, read)]
        several = [[ast.unparse(one) for one in side.elts] for side in sides if isinstance(side, ast.Tuple)]
        pairs += zip(*several, strict=True) if len(several) == 2 and len(several[0]) == len(several[1]) else ()
    return any(_roles_in(made) == {"keys"} and _roles_in(read) == {"values"} for made, read in pairs)


def _roles_in(text: str) -> set[str | None]:
    """Return which of keys and values the names in a piece of code stand for, without those of arguments."""
    return {role_of(name) for name in names_in(KEYWORD.sub("", text))} & {"keys", "values"}


def _line_of_its_own(operation: Operation, others: list[Operation]) -> SourceLine | None:
    """Return the outermost line that led to an operation and to none of the others."""
    shared = {frame for other in others for frame in other.frames}
    own = [frame for frame in operation.frames if frame not in shared]
    return line_at(statement_of(*own[-1])) if own else operation.where


def _values_of_roles(attention: Attention, row: Row, roles: tuple[str, str]) -> dict[str, list[Value]]:
    """Return the factors of each role in its product."""
    structure, columns = attention.structure, set(row.key_columns)
    product, number = attention.rows.score_product(row), row.product.operation.number
    made_by = {value: attention.trace.writers_of(value, number) for value in (row.product.left, row.product.right)}
    sets = [column_sets(structure.columns[value.number].flatten()[at]) for value, at in product.sides()]
    factors = [product.left, product.right]
    keys = [value for value, own in zip(factors, sets, strict=True) if not columns.isdisjoint(own)] or factors
    return {
        "queries": factors[:1],
        "keys": factors[1:] if roles == ("queries", "keys") else keys,
        "values": [value for value, writers in made_by.items() if structure.score_descendants.isdisjoint(writers)],
    }


@rule(of_dot_products=True)
def check_exchanged(attention: Attention) -> Iterator[Finding]:
    """Whether a call exchanges keys and values."""
    rows = attention.rows.all
    roles = [role_of_columns(attention, columns) for columns in (rows[0].key_columns[0], rows[0].value_columns[0])]
    if roles != ["values", "keys"]:
        return
    where = locate_passed(attention.rows.score_product(rows[0]).operation, "keys", "values")
    if where is not None:
        evidence = "the call gives values as keys and keys as values, by their names: scores are products with values"
        yield Finding.named("scores-from-values", evidence, where)


def role_of_columns(attention: Attention, columns: ColumnSet) -> str | None:
    """Return the role that the name of the weights says which made some columns; None if it says none."""
    roles = {role_of(name) for name in _names_of(attention, columns)}
    return roles.pop() if len(roles) == 1 else None


def _readers_of(attention: Attention, columns: ColumnSet) -> list[Operation]:
    """Return the projections that made some columns."""
    structure = attention.structure
    return [one.operation for one in structure.projections if columns[0] in structure.columns_in(one.out)]


def _names_of(attention: Attention, columns: ColumnSet) -> list[str]:
    """Return the names of the parameters that made some columns."""
    read = {value.storage for one in _readers_of(attention, columns) for value in one.inputs}
    reads = attention.run.parameter_reads.items()
    return [name for name, values in reads if any(value.storage in read for value in values)]


@rule(of_dot_products=True)
def check_crossed_heads(attention: Attention) -> Iterator[Finding]:
    """Whether each head uses its own projections."""
    heads, rows, unused = attention.rows.num_heads, attention.rows.all, attention.run.unused_parameters
    if (attention.options.num_kv_heads or heads) != heads or not unused or any(map(_shares_a_role, rows)):
        return
    by_role = {
        "keys": {row.head: row.key_columns[0] for row in rows},
        "values": {row.head: row.value_columns[0] for row in rows},
        "queries": {row.head: row.query_columns for row in rows},
    }
    counts = {role: len(set(columns.values())) for role, columns in by_role.items()}
    own = heads in (counts["keys"], counts["values"])
    for role, columns in by_role.items():
        if counts[role] < heads and (counts[role] > 1 or (own and len(set(counts.values())) > 1)):
            shared = list(columns.values())
            column = next(one for one in shared if shared.count(one) > 1)[0]
            projections = attention.structure.projections
            reading = [one for one in projections if column in attention.structure.columns_in(one.out)]
            evidence = f"several heads use the same {role}: {counts[role]} different ones for {heads} heads, while "
            evidence += f"{', '.join(unused)} does not change the output"
            where = reading[-1].operation.where if reading else None
            yield Finding.named("projection-reused", evidence, where)
            return
