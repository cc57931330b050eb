"""A cache must return keys as keys and values as values."""

from collections.abc import Iterator

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import find_join, locate_return_after
from course_lib.diagnosis.measure import Attention
from course_lib.diagnosis.registry import rule


@rule(of_dot_products=True)
def check_cached_roles(attention: Attention) -> Iterator[Finding]:
    """Keys and values that have changed their roles in the cache."""
    row = next((row for row in attention.rows.all if row.exchanged), None)
    if row is None:
        return
    old, new = row.exchanged
    join = find_join(attention.rows, row, "keys")
    where = None if join is None else locate_return_after(join) or join.where
    evidence = f"a query meets the value of token {old} as its key, beside the key of token {new}"
    yield Finding.named("stale-cache", evidence, where)
