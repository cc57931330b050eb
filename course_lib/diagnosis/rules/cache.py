"""Cached keys must be complete, at their own positions and from the same prompt."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import find_join, locate_cut, locate_leftover, locate_returned, locate_write_index
from course_lib.diagnosis.measure import (
    EXPONENTIALS,
    SEVERAL,
    SOFTMAXES,
    Attention,
    Row,
    SecondPrompt,
    SoftmaxPath,
    TokenlessWeights,
)
from course_lib.diagnosis.registry import Of, rule
from course_lib.tracing import UNLABELLED, SourceLine, Value

from .values import have_own_order

GATHERS = ("index", "index_select", "gather")
SUMS = ("add", "add_")
CUTS = ("slice", "narrow", "select", "split", "split_with_sizes")


@rule(of=Of.BOTH)
def check_second_prompt(second: SecondPrompt) -> Iterator[Finding]:
    """What the code keeps from one prompt to the next."""
    if second.fails:
        yield Finding.failed(second.fails, second.failed_at)
    elif second.difference:
        yield Finding.named("stale-cache", second.difference, second.failed_at or locate_leftover(second))


@rule()
def check_cache(attention: Attention, path: SoftmaxPath) -> Iterator[Finding]:
    """The keys and values in the cache."""
    if not attention.rows.is_cached or not attention.options.causal:
        return
    incomplete = _incomplete_query(attention)
    if incomplete is not None:
        head, query, absent = incomplete
        rows = [row for row in attention.rows.all if row.head == head and row.query >= query]
        lines = (_locate(attention, row, absent, newest_only=absent == [query]) for row in rows)
        evidence = f"query {query} is not compared with the keys of the tokens {absent}"
        lost = _locate_cut_off(attention, rows[0], absent[0])
        of_values = all(absent[0] in row.score_keys for row in rows)  # whose keys are there
        if of_values or (lost is None and any(map(partial(_overwrites, attention, absent[0]), rows))):
            yield Finding.named("stale-cache", evidence, next(filter(None, lines), None))
        else:
            yield Finding.named("token-missing-from-cache", evidence, lost or next(filter(None, lines), None))
    elif (row := _unmasked_row(attention, path)) is not None:
        evidence = f"slots of the cache that no token fills get {1 - sum(row.weights):.4f} of query {row.query}"
        yield Finding.named("mask-skipped-when-cached", f"no mask is applied: {evidence}", row.product.operation.where)
    elif (row := _misplaced_row(attention)) is not None:
        evidence = f"query {row.query} gets the keys of the tokens {row.score_keys} and the values of {row.keys}"
        only_values = _are_only_values_elsewhere(row) or have_own_order(attention.rows.scores)
        mistake = "values-misaligned" if only_values else "stale-cache"
        yield Finding.named(mistake, evidence, _locate(attention, row))
    elif (other := _foreign_part(attention)) is not None:
        row, part, at = other
        evidence = f"the score of query {row.query} and the key of token {row.score_keys[at]} adds a product with "
        evidence += f"token {part.score_keys[at]}"
        yield Finding.named("stale-cache", evidence, _locate(attention, part))


def _incomplete_query(attention: Attention) -> tuple[int, int, list[int]] | None:
    """Return the head and the index of the first query that lacks keys, and the tokens of these keys."""
    keys: dict[tuple[int, int], set[int]] = {}
    for row in attention.rows.all:
        keys.setdefault((row.head, row.query), set()).update(row.keys)
    for (head, query), found in sorted(keys.items()):
        wanted = attention.expected[:, head, query].any(0).nonzero().flatten().tolist()
        absent = [key for key in wanted if key not in found]
        if absent and not attention.seen[0, head, query, absent].all():
            return head, query, absent
    return None


def _unmasked_row(attention: Attention, path: SoftmaxPath) -> Row | None:
    """Find a row that gives weight to slots of a cache that no token fills, where keys are in order and none masked."""
    tokenless = TokenlessWeights(attention.rows)
    in_order = all(row.score_keys == row.keys == sorted(set(row.keys)) for row in attention.rows.all)
    found = next(filter(tokenless.unexplained, attention.rows.all), None) if in_order else None
    if found is None or not path.masking:
        return found
    before = path.trace.ancestors([found.product.left, found.product.right])
    return None if any(one.number in before for one in path.masking) else found


def _overwrites(attention: Attention, absent: int, row: Row) -> bool:
    """Return whether a row's keys are written into a buffer, so that one may overwrite the one that is absent."""
    join = find_join(attention.rows, row, "keys")
    if join is None or join.name in ("cat", "stack"):
        return False
    held = [one for one in attention.rows.all if one.head == row.head and one.sample == row.sample]
    slots = {at for one in held for key, at in zip(one.score_keys, one.positions, strict=True) if key == absent}
    taken = any(at in slots for key, at in zip(row.score_keys, row.positions, strict=True) if key != absent)
    return join.in_place or taken or not slots


def _locate_cut_off(attention: Attention, row: Row, absent: int) -> SourceLine | None:
    """Find the line that cuts an absent token off and keeps the tokens that the row reads; None if there is none."""
    product, columns = attention.rows.score_product(row), {one[0] for one in row.key_columns}
    structure = attention.structure
    keys = product.sides()[int(attention.rows.scores.keys_are_right(row.product))][0]
    ancestors = structure.ancestors_of([keys])
    if any(op.name in GATHERS and structure.is_projected(op.outputs[0]) for op in ancestors):
        return None  # pages: a token may have been written to one that is not read
    for operation in reversed(ancestors):
        given, made = operation.inputs[:1], operation.outputs[:1]
        if operation.name in CUTS and _holds(attention, given[0], absent) and not _holds(attention, made[0], absent):
            wanted = [key for key in row.keys if key >= 0 and _holds(attention, given[0], key)]
            kept = bool(wanted) and all(_holds(attention, made[0], key) for key in wanted)
            if kept and structure.columns_in(given[0]) & columns:
                return operation.where
    return None


def _holds(attention: Attention, value: Value, token: int) -> bool:
    return bool((attention.dependence.token_of(value) == token).any())


def _misplaced_row(attention: Attention) -> Row | None:
    """Find a row with a token twice, several in one key, another token's value, or an order that hides some tokens."""
    rows, tokenless = attention.rows.all, TokenlessWeights(attention.rows)
    twice = [row for row in rows if any(key >= 0 and row.keys.count(key) > 1 for key in row.keys)]
    strange = [row for row in rows if SEVERAL in row.keys or row.score_keys != row.keys or tokenless.unexplained(row)]
    if twice or strange:
        return (twice or strange)[-1]
    wrong = not torch.equal(attention.seen, attention.expected)
    return next((row for row in rows if wrong and row.keys != sorted(row.keys)), None)


def _are_only_values_elsewhere(row: Row) -> bool:
    """Return whether each key is in the slot of its token and each token's value is there, beside another key."""
    tokens = list(range(len(row.keys)))
    return row.score_keys == row.positions == tokens == sorted(row.keys) and row.keys != tokens


def _foreign_part(attention: Attention) -> tuple[Row, Row, int] | None:
    """Find a row and a key to whose score a product with another token is added, as of a second cache of keys.

    Returns:
        The row, as of either product, and the index of the key.
    """
    scores, added = attention.rows.scores, _added_scores(attention)
    if added is None:
        return None
    for row in attention.rows.all:
        others = added[row.scores].tolist()
        keys = scores.right if scores.keys_are_right(row.product) else scores.left
        part = replace(
            row,
            scores=others,
            score_keys=keys.tokens[others].tolist(),
            key_columns=[keys.columns[one] for one in others],
        )
        for at, (one, other) in enumerate(zip(row.score_keys, part.score_keys, strict=True)):
            if one != other and min(one, other) >= 0:
                return row, part, at
    return None


def _added_scores(attention: Attention) -> Tensor | None:
    """Return, for each score, the one that is added to it, or itself; None unless scores are added to scores."""
    scores, structure, live = attention.rows.scores, attention.structure, attention.run.live_operations
    of_weights = attention.trace.descendants({op.number for op in live if op.name in (*SOFTMAXES, *EXPONENTIALS)})
    numbers = structure.score_descendants - of_weights - structure.value_product_descendants
    added = torch.arange(len(scores.dot_products))
    for operation in live:
        labels = [scores.labels[value.number] for value in operation.inputs]
        sums = operation.name in SUMS and operation.number in numbers and len(labels) == 2
        if sums and labels[0].shape == labels[1].shape:
            both = (labels[0] != UNLABELLED) & (labels[1] != UNLABELLED)
            added[labels[0][both]] = labels[1][both]
    return None if torch.equal(added, torch.arange(len(added))) else added


def _locate(
    attention: Attention, row: Row, absent: Sequence[int] = (), *, newest_only: bool = False
) -> SourceLine | None:
    """Find the line that writes or cuts a row's keys or values; `absent` are the tokens whose keys the row lacks.

    With `newest_only`, only the newest token is absent, because the cache was read before it was written.
    """
    in_place = all(key in (at, UNLABELLED) for key, at in zip(row.score_keys, row.positions, strict=True))
    join = find_join(attention.rows, row, "values" if in_place and row.keys != row.positions else "keys")
    if join is None:
        return None
    return (
        locate_cut(attention.rows, row, join, absent)
        or locate_returned(attention.rows, join, absent, newest_only=newest_only)
        or locate_write_index(join, attention.trace)
        or join.where
    )
