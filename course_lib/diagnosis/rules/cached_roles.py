"""A cache must return keys as keys and values as values."""

from collections.abc import Iterator

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import find_join, locate_return_after
from course_lib.diagnosis.measure import Attention, Row
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED


@rule(order=232, of_dot_products=True)
def check_cached_roles(attention: Attention) -> Iterator[Finding]:
    """Keys and values that have changed their roles in the cache."""
    row = next((row for row in attention.rows.all if _exchanged(row) is not None), None)
    if row is None:
        return
    old, new = _exchanged(row) or ("", "")
    join = find_join(attention.rows, row, "keys")
    where = None if join is None else locate_return_after(join) or join.where
    evidence = f"a query meets the value of token {old} as its key, beside the key of token {new}"
    yield Finding.named("stale-cache", evidence, where)


def _exchanged(row: Row) -> tuple[int, int] | None:
    """Return two tokens of which each has its key from the columns of weights of the other one's value, or None."""
    roles = [(key, value) for key, value in zip(row.key_columns, row.value_columns, strict=True)]
    for token, (key, value) in zip(row.keys, roles, strict=True):
        if key != value and UNLABELLED not in (key[1], value[1]) and (value, key) in roles:
            return token, row.keys[roles.index((value, key))]
    return None
