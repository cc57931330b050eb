"""Find the line that writes keys and values to a cache, sets where, or returns them."""

import ast
from collections.abc import Iterator, Sequence
from typing import Literal

import torch

from course_lib.diagnosis.measure import WRITES, Row, Rows, SecondPrompt
from course_lib.tracing import UNLABELLED, Operation, Source, SourceLine, Trace, statement_of

from .sources import assignments, function_of, is_in_other_branch, is_skipped, last_line_of, nodes_in, returns_below
from .statements import locate_return_after

JOINS = (*WRITES, "cat", "stack")
# method -> the arguments that say where it writes
INDEX_ARGUMENT = {"index_copy_": 1, "index_copy": 1, "scatter_": 1, "scatter": 1, "index_put_": 0, "slice_scatter": 2}


def locate_leftover(second: SecondPrompt) -> SourceLine | None:
    """Find where state from an earlier prompt is joined to the new keys."""
    trace = second.trace()
    joins = [operation for operation in trace.operations if operation.name in JOINS]
    old = [one for one in joins if any(v.made_by is None and v is not trace.x for v in one.inputs)]
    return (old or joins)[0].where if joins else None


def find_join(rows: Rows, row: Row, role: Literal["keys", "values"]) -> Operation | None:
    """Return the operation that joins the keys, or the values, of several tokens for a row."""
    product = rows.score_product(row) if role == "keys" else row.product
    columns = {one[0] for one in (row.key_columns if role == "keys" else row.value_columns)}
    ancestors = rows.structure.ancestors_of([value for value, _ in product.sides()])
    joins = [operation for operation in ancestors if operation.name in JOINS]
    own = [one for one in joins if any(rows.structure.columns_in(v) & columns for v in one.inputs)] or joins
    cats = [one for one in own if one.name == "cat" and _joins_tokens(rows, one)]
    writes = [one for one in own if one.name in WRITES]
    lasting = [one for one in writes if _lasts(rows, one)]
    return next(iter(cats or lasting or writes or own), None)


def _joins_tokens(rows: Rows, operation: Operation) -> bool:
    """Return whether an operation joins elements of different tokens."""
    tokens = [set(rows.dependence.token_of(v).flatten().tolist()) - {UNLABELLED} for v in operation.inputs]
    return len(tokens) > 1 and not set.intersection(*tokens)


def _lasts(rows: Rows, operation: Operation) -> bool:
    """Return whether a later piece still reads what was written."""
    after = rows.trace.descendants({operation.number})
    return len({product.operation.number for product in rows.structure.score_products} & after) > 1


def locate_cut(rows: Rows, row: Row, join: Operation, absent: Sequence[int]) -> SourceLine | None:
    """Find the line behind a join that cuts off the absent tokens; None if the join itself lacks them."""
    if join.name != "cat":
        return None
    missing = torch.tensor(absent)
    after = rows.trace.descendants({join.number})
    for operation in rows.structure.ancestors_of([value for value, _ in rows.score_product(row).sides()]):
        if operation.number in after and operation.name in ("slice", "index", "index_select"):
            tokens = [rows.dependence.token_of(value) for value in (operation.inputs[0], operation.outputs[0])]
            before, now = (bool(torch.isin(one, missing).any()) for one in tokens)
            if before and not now:
                return operation.where
    return None


def locate_returned(rows: Rows, join: Operation, absent: Sequence[int], *, newest_only: bool) -> SourceLine | None:
    """Find the line that returns the old cache, or passes on the new keys alone; None if neither happens.

    Args:
        rows: of the run.
        join: of the new keys with the cached ones.
        absent: the tokens that a later query lacks.
        newest_only: whether only the newest token is missing, because the cache was read before it was written.
    """
    if join.name != "cat" and join.in_place:
        return None
    if newest_only and join.name == "cat":
        return locate_return_after(join)
    same = [one for one in rows.trace.operations if one.name == join.name and one.where == join.where]
    held = [
        one for one in same if bool(torch.isin(rows.dependence.token_of(one.outputs[0]), torch.tensor(absent)).any())
    ]
    for one in (join, *held[:1]):
        again = {other.number for other in same if other.number > one.number}
        if again and not again & rows.trace.descendants({one.number}):
            return _locate_returned_cache(one)
    return None


def _locate_returned_cache(operation: Operation) -> SourceLine | None:
    """Find where the last part was set of the `return` that ends an operation's branch, or else that `return`."""
    source, returned = function_of(operation), _return_after(operation)
    if returned is None or not isinstance(returned.value, ast.Tuple):
        return None
    last = returned.value.elts[-1]
    named = [one for one in assignments(source) if isinstance(last, ast.Name) and last.id in one.targets]
    lines = [one.line for one in named if isinstance(one.node, ast.Assign)]
    if lines and all(is_in_other_branch(source, line, operation.statement.line) for line in lines):
        return operation.where
    return last_line_of(source, lines or [returned.lineno])


def _return_after(operation: Operation) -> ast.Return | None:
    """Return the `return` that ends an operation's branch of an `if`, or else the last one of its function."""
    line, below = operation.statement.line, returns_below(operation)
    branches = [branch for node in nodes_in(function_of(operation)) if isinstance(node, ast.If)
                for branch in (node.body, node.orelse) if branch]  # fmt: skip
    own = [one[-1] for one in branches if one[0].lineno <= line <= one[-1].lineno]
    ends = [one for one in below if one in own]
    return next(iter(ends), below[-1] if below else None)


def locate_write_index(join: Operation, trace: Trace) -> SourceLine | None:
    """Find the last line that sets the index at which a statement writes; None if the index is written in place."""
    source, line = function_of(join) if join.name in WRITES else None, join.statement.line
    ran = {statement_of(*frame).line for one in trace.operations for frame in one.frames if frame[0] is join.code}
    for index in _write_indices(source, line):
        found = [one for one in assignments(source) if ast.unparse(index) in one.targets]
        found = [one for one in found if not is_skipped(source, one.line, ran)]
        lines = [one.line for one in found if isinstance(index, ast.Attribute) or one.end_line < line]
        if lines:
            return last_line_of(source, lines)
    return None


def _write_indices(source: Source | None, line: int) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the names that the statement in a line uses as indices to write."""
    for node in nodes_in(source):
        if not isinstance(node, (ast.Assign, ast.Expr)) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        found: list[ast.expr] = []
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Subscript):
                found += target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in INDEX_ARGUMENT:
            found += call.args[INDEX_ARGUMENT[call.func.attr] :][:1]
        for one in found:
            begin = one.lower if isinstance(one, ast.Slice) else one
            if isinstance(begin, (ast.Name, ast.Attribute)):
                yield begin
