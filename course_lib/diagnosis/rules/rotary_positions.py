"""Queries and keys must both be rotated, each by the angles of its own position."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Literal

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import find_join, locate_discarded, locate_request, locate_returned_argument
from course_lib.diagnosis.measure import SAME, Attention, RotaryAngles, RotatedRow, Row, Rows, rotated_rows
from course_lib.diagnosis.registry import rule
from course_lib.tracing import FACTORS, Contraction, Operation, SourceLine, Value, line_at, statement_of

MULTIPLIES = {"mul", "addcmul", *FACTORS}
EQUAL = "with the same token everywhere,"


@dataclass(frozen=True, eq=False)
class _Rotation:
    """The rows of a run in which all tokens are the same, so that only positions differ."""

    attention: Attention
    angles: RotaryAngles
    rows: list[RotatedRow]

    @property
    def in_pieces(self) -> bool:
        return self.attention.rows.is_cached and self.attention.options.causal


def _are_equal(vectors: list[Tensor]) -> bool:
    return all(float((one - vectors[0]).norm()) <= SAME * float(vectors[0].norm()) for one in vectors)


@rule(of_dot_products=True)
def check_rotary_positions(attention: Attention, angles: RotaryAngles) -> Iterator[Finding]:
    """The rotary positions of queries and keys."""
    ancestors = attention.trace.ancestors(attention.structure.score_factors) if angles.readers else set()
    products = attention.structure.score_products
    reached = [angles.readers & attention.trace.ancestors([value for value, _ in one.sides()]) for one in products]
    among = [one for one, readers in zip(products, reached, strict=True) if readers]
    if len(among) < len(products):  # scores are sums of products, some of which have no positions
        if not all(attention.dependence.on_input(value) for one in among for value, _ in one.sides()):
            return
        rows = rotated_rows(attention, among) if among else []
    else:
        rows = rotated_rows(attention) if angles.readers & ancestors else []
    if not any(len(one.tokens) > 1 for one in rows):
        return
    found = _Rotation(attention, angles, rows)
    by_head = [[one for one in rows if one.group == group] for group in dict.fromkeys(one.group for one in rows)]
    cosines = ([one.own_cosine for one in head if one.own_cosine is not None] for head in by_head)
    apart = any(max(one) - min(one) > SAME for one in cosines if one)  # the angles of a query and its own token's key
    queries_differ = any(not _are_equal([one.query for one in head]) for head in by_head)
    keys_differ = any(not _are_equal(list(one.keys)) for one in rows)
    if apart and not _rotates_only(by_head):  # adding positions instead of rotating is not a mistake
        return
    if apart and queries_differ and keys_differ and found.in_pieces and _are_repeated(by_head):
        evidence = f"{EQUAL} a query and its own token's key are not rotated alike in every position"
        yield Finding.named("positions-restart-in-cache", evidence, _locate_positions(found))
    elif apart and queries_differ != keys_differ:
        yield _one_side(found, "queries" if keys_differ else "keys")
    elif not (apart or queries_differ or keys_differ) and _turns_tokens(found):
        yield _nowhere(found)
    elif not apart and found.in_pieces:
        yield from _equal_keys(found)


def find_restart(attention: Attention, angles: RotaryAngles, rows: list[RotatedRow]) -> Finding | None:
    """Return the finding of queries that are rotated in each piece as in the first one; None if they are not.

    It holds for rotations that change lengths, or are rounded, too.
    """
    found, pieces = _Rotation(attention, angles, rows), {}
    for one in rows:
        pieces.setdefault(one.row.product.operation.number, {})[one.row.query] = one.query
    queries = [[piece[query] for query in sorted(piece)] for _, piece in sorted(pieces.items())]
    if not found.in_pieces or len(queries) < 2 or any(len(one) > len(queries[0]) for one in queries):
        return None
    pairs = [pair for later in queries[1:] for pair in zip(queries[0], later, strict=False)]
    if not all(_are_equal(list(pair)) for pair in pairs):
        return None
    evidence = f"{EQUAL} the queries of each piece are rotated as those of the first one"
    return Finding.named("positions-restart-in-cache", evidence, _locate_positions(found))


@rule(of_dot_products=True)
def check_added_positions(attention: Attention) -> Iterator[Finding]:
    """The positions that are added in later pieces."""
    if not attention.rows.is_cached or not attention.options.causal or not attention.options.has_call:
        return
    for one in rotated_rows(attention):
        pair = one.equal_keys() if len(one.tokens) > 1 else None
        if pair is None or _are_equal(list(one.keys)):
            continue
        operation = _position_added(attention, pair[1])
        if operation is not None:
            evidence = f"{EQUAL} the keys of the tokens {pair[0]} and {pair[1]} are equal and others are not"
            yield Finding.named("positions-restart-in-cache", evidence, operation.where)
        return


def _position_added(attention: Attention, token: int) -> Operation | None:
    """Return the sum that gives a token its position, before it is projected; None if there is none."""
    dependence = attention.dependence
    for product in attention.structure.projections:
        for operation in attention.structure.ancestors_of([product.left, product.right]):
            fixed = [value for value in operation.inputs if not dependence.on_input(value)]
            here = operation.outputs and bool((dependence.token_of(operation.outputs[0]) == token).any())
            if operation.name.rstrip("_") == "add" and fixed and here and len(operation.inputs) == 2:
                ranges = [one for one in attention.structure.ancestors_of(fixed) if one.name == "arange" and one.where]
                return ranges[0] if ranges else operation
    return None


def _one_side(found: _Rotation, side: Literal["queries", "keys"]) -> Finding:
    """Report that all but `side` are rotated."""
    rows, other = found.attention.rows, "keys" if side == "queries" else "queries"
    row = found.rows[-1].row
    product = rows.score_product(row)
    factor = product.sides()[int(rows.scores.keys_are_right(row.product) == (side == "keys"))][0]
    evidence = f"{EQUAL} the {other} differ from position to position and the {side} do not"
    if found.in_pieces and found.angles.readers & found.attention.trace.ancestors([factor]):
        evidence = f"{evidence}: in each piece their rotation starts at zero"
        return Finding.named("positions-restart-in-cache", evidence, _locate_positions(found))
    unused = found.angles.unused_rotations({one.number for one in found.angles.trigonometry} | found.angles.all_readers)
    discarded = next(filter(None, map(locate_returned_argument, unused)), None)
    discarded = discarded or (locate_discarded(unused[-1]) if unused else None)
    if discarded is not None:
        return Finding.named("rotary-unused", evidence, discarded)
    join = find_join(rows, row, "keys") if side == "keys" and unused else None
    if join is None:
        # In pieces, the cache may rotate.
        rotated = None if found.in_pieces else _locate_kept(found) or _locate_rotation(found, product, factor)
        return Finding.named("rotary-unused", evidence, rotated or product.operation.where)
    return Finding.named("rotary-unused", evidence, line_at(join.statement_in(product.operation.code)))


def _locate_kept(found: _Rotation) -> SourceLine | None:
    """Find the line of a function that rotates one side and gives the other back as it came."""
    run, last = found.attention.run, found.attention.trace.ancestors(found.attention.structure.score_factors)
    rotating = run.in_order(found.angles.descendants & last)
    own = [one for one in rotating if one.outputs and found.attention.structure.is_projected(one.outputs[0])]
    return next(filter(None, map(locate_returned_argument, own)), None)


def _locate_rotation(found: _Rotation, product: Contraction, plain: Value) -> SourceLine | None:
    """Find the line that rotates one side, or a later one that projects `plain`, in the function that compares both."""
    trace, structure, run = found.attention.trace, found.attention.structure, found.attention.run
    compares = {code for code, _ in product.operation.frames} - {trace.caller}
    rotating = trace.descendants(found.angles.readers) & trace.ancestors([value for value, _ in product.sides()])
    rotations = (one for one in run.in_order(rotating) if one.outputs and structure.is_projected(one.outputs[0]))
    rotated = next((line for one in rotations if (line := _line_in(one, compares))), None)
    made = trace.ancestors([plain])
    projected = (_line_in(one.operation, compares) for one in structure.projections if one.operation.number in made)
    later = (line for line in projected if rotated and line and line.file == rotated.file and line.line > rotated.line)
    return next(later, rotated)


def _line_in(operation: Operation, functions: set[CodeType]) -> SourceLine | None:
    """Return the line of an operation in one of some functions; None if it runs in none of them."""
    return next((line_at(statement_of(*frame)) for frame in operation.frames if frame[0] in functions), None)


def _turns_tokens(found: _Rotation) -> bool:
    """Return whether angles multiply what comes from tokens; rows may be put in place of those that were rotated."""
    attention, angles = found.attention, found.angles
    last = attention.trace.ancestors(attention.structure.score_factors)
    for operation in attention.run.in_order((angles.readers | angles.descendants) & last):
        of_tokens = [attention.dependence.on_input(value) for value in operation.inputs]
        if operation.name.rstrip("_") in MULTIPLIES and any(of_tokens) and not all(of_tokens):
            return True
    return False


def _nowhere(found: _Rotation) -> Finding:
    """Report that the angles that reach queries and keys are the same for every token."""
    evidence = f"{EQUAL} queries and keys are the same in every position, although they are rotated"
    if found.in_pieces and found.attention.rows.queries_at_once == 1:
        evidence = f"{evidence}: each token has the position of the first one"
        return Finding.named("positions-restart-in-cache", evidence, _locate_positions(found))
    made = found.angles.positions_of(found.attention.run.x.shape[1])
    rotation, code = found.angles.first_rotation, found.attention.structure.score_products[0].operation.code
    where = made.where if made is not None else line_at(rotation.statement_in(code)) if rotation is not None else None
    return Finding.named("rotary-unused", evidence, where)


def _equal_keys(found: _Rotation) -> Iterator[Finding]:
    """Report two keys that one query sees and that are rotated by the same angles."""
    for one in found.rows:
        pair = one.equal_keys() if len(one.tokens) > 1 else None
        if pair is not None:
            evidence = f"query {one.row.query} sees the keys of the tokens {pair[0]} and {pair[1]} rotated by the same "
            unrotated = _locate_unrotated_join(found, one.row)
            restarts = unrotated is None and _start_alike(found.attention.rows, pair)
            mistake = "positions-restart-in-cache" if restarts else "stale-cache"
            yield Finding.named(mistake, f"{evidence}angles", unrotated or _locate_positions(found))
            return


def _start_alike(rows: Rows, tokens: tuple[int, int]) -> bool:
    """Return whether two tokens come in different pieces, each as far behind the first token of its piece."""
    pieces: dict[int, set[int]] = {}
    for row in rows.all:
        pieces.setdefault(row.product.operation.number, set()).add(row.query)
    starts = [max(min(piece) for piece in pieces.values() if token in piece) for token in tokens]
    return starts[0] != starts[1] and tokens[0] - starts[0] == tokens[1] - starts[1]


def _locate_unrotated_join(found: _Rotation, row: Row) -> SourceLine | None:
    """Find the line that joins keys which were cached before they were rotated."""
    join, trace = find_join(found.attention.rows, row, "keys"), found.attention.trace
    projected = [] if join is None else [one for one in join.inputs if found.attention.structure.is_projected(one)]
    if join is None or all(found.angles.readers & trace.ancestors([value]) for value in projected):
        return None
    return join.where


def _locate_positions(found: _Rotation) -> SourceLine | None:
    """Find the line that sets the positions of a piece's tokens: a range, or the rows of a table."""
    rows = found.attention.rows
    products = sorted({row.product.operation.number for row in rows.all})
    last = [row for row in rows.all if row.product.operation.number == products[-1]]
    before = products[-2] if len(products) > 1 else 0
    ancestors = found.attention.trace.ancestors([value for value, _ in rows.score_product(last[0]).sides()])
    own = {number for number in ancestors if number > before}
    queries = {row.query for row in last}
    made = found.angles.positions_of(len(queries), after=before)
    if made is not None and min(queries) > 0 and float(made.outputs[0].tensor.min()) == min(queries):
        made = _restarting(found, made, own, queries)
    made = made or found.angles.lookup(own)
    return None if made is None else locate_request(made)


def _restarting(found: _Rotation, right: Operation, own: set[int], queries: set[int]) -> Operation | None:
    """Return the first operation that makes positions from 0 on of the right ones; None without one."""
    restarted = list(range(len(queries)))
    for operation in found.attention.run.in_order(own & found.attention.trace.descendants({right.number})):
        if operation.outputs and operation.outputs[0].tensor.unique().tolist() == restarted:
            return operation
    return None


def _are_repeated(by_head: list[list[RotatedRow]]) -> bool:
    """Return whether queries of two positions, or keys, are rotated by the same angles."""
    for rows in by_head:
        queries = torch.stack([one.query for one in rows])
        near = torch.cdist(queries, queries) <= SAME * queries.norm(dim=-1).max()
        if near.triu(1).any() or any(one.equal_keys() for one in rows):
            return True
    return False


def _rotates_only(by_head: list[list[RotatedRow]]) -> bool:
    """Return whether queries and keys have equal norms in all positions, which a rotation keeps and a sum does not."""
    for rows in by_head:
        for vectors in (torch.stack([one.query for one in rows]), torch.cat([one.keys for one in rows])):
            norms = vectors.norm(dim=-1)
            if float(norms.max() - norms.min()) > SAME * float(norms.max()):
                return False
    return True
