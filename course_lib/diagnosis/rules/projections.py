"""Queries, keys and values must come from different columns of weights."""

from __future__ import annotations

import re
from collections.abc import Iterator

from torch import nn

from ..anatomy import Row, column_sets
from ..contraction import Contraction
from ..examination import Examination
from ..lines import line_at
from ..report import Finding
from .roles import dead_roles, role_of


def check_projections(examination: Examination) -> Iterator[Finding]:
    """Queries, keys and values must come from different columns of weights."""
    anatomy = examination.anatomy
    if not anatomy.projections:
        return
    same_kv = same_qk = same_qv = 0
    for row in anatomy.rows:
        same_kv += all(k == v for k, v in zip(row.key_sources, row.value_sources, strict=True))
        same_qk += all(k == row.query_source for k in row.key_sources)
        same_qv += all(v == row.query_source for v in row.value_sources)
    total = len(anatomy.rows)
    row = next(
        (
            r
            for r in anatomy.rows
            if r.key_sources[0] in (r.value_sources[0], r.query_source) or r.value_sources[0] == r.query_source
        ),
        None,
    )
    if row is None:
        yield from _crossed_heads(examination)
        return
    dead = dead_roles(examination)
    meeting = meeting_of(anatomy, row)
    if same_kv and "values" not in dead and not same_qk and not same_qv:
        unused = "; the keys are never used" if "keys" in dead else ""
        if "keys" in dead or _value_named(examination, meeting):
            yield Finding.named(
                "scores-from-values",
                f"queries meet the same numbers that are mixed afterwards, in {same_kv} of {total} rows{unused}",
                branch(examination, row, "keys and values", {"keys"}) or meeting.operation.where,
            )
            return
    if isinstance(examination.patient.code, nn.Module) and not dead and not _made_apart(examination, row):
        return  # one projection that is meant to feed two roles
    names = {same_kv: "keys and values", same_qk: "queries and keys", same_qv: "queries and values"}
    which = names[max(same_kv, same_qk, same_qv)]
    unused = f"; the weights of the {', '.join(sorted(dead))} don't matter" if dead else ""
    yield Finding.named(
        "projection-reused",
        f"{which} come from the same columns of weights, in {max(same_kv, same_qk, same_qv)} of {total} rows{unused}",
        branch(examination, row, which, dead) or meeting.operation.where,
    )


def _made_apart(examination: Examination, row: Row) -> bool:
    """Whether the same weights are multiplied with the tokens more than once."""
    anatomy = examination.anatomy
    column = row.key_sources[0][0]
    return sum(bool((anatomy.sources[product.out.number] == column).any()) for product in anatomy.projections) > 1


def meeting_of(anatomy, row: Row) -> Contraction:
    label, base = row.scores[0], 0
    for meeting in anatomy.meetings:
        base += meeting.out.tensor.numel()
        if label < base:
            return meeting
    return anatomy.meetings[-1]


def _value_named(examination: Examination, meeting: Contraction) -> bool:
    """Whether the statement that compares names the values."""
    names = re.findall(r"[A-Za-z_]\w*", meeting.operation.place.source)
    return any(role_of(name) == "values" for name in names)


def branch(examination: Examination, row: Row, which: str, dead: set[str]) -> str | None:
    """The first line on the way of the wrong role that is not on the way of the right one.

    Args:
        examination: of the patient.
        row: one in which two roles have one source.
        which: "keys and values", "queries and keys" or "queries and values".
        dead: the roles whose own weights are not used; one of them is wrong.
    """
    anatomy, trace = examination.anatomy, examination.trace
    meeting = meeting_of(anatomy, row)
    sides = [value for value, _ in meeting.sides()]
    keys = [v for v in sides if set(hashes_of(anatomy, meeting, v)) & set(row.key_sources)]
    values = [
        v for v, _ in row.mix.sides() if not any(n in anatomy.below for n in trace.makers(v, row.mix.operation.number))
    ]
    roles = {
        "queries": sides[:1],
        "keys": sides[1:] if which == "queries and keys" else keys or sides,
        "values": values,
    }
    right, wrong = which.split(" and ")
    if right in dead and wrong not in dead:
        right, wrong = wrong, right
    ours = trace.ancestors(roles[wrong])
    theirs = trace.ancestors(roles[right])
    scored = {m.operation.number for m in anatomy.meetings}
    for number in sorted(ours - theirs - scored):
        operation = trace.operations[number]
        if operation.number in anatomy.below:
            continue
        return line_at(operation.place_in(meeting.operation.code))
    return None


def hashes_of(anatomy, meeting: Contraction, value) -> list[tuple[int, int]]:
    """The column sets of a factor of a meeting, row by row."""
    which = next(where for one, where in meeting.sides() if one is value)
    return column_sets(anatomy.sources[value.number].flatten()[which])


def _crossed_heads(examination: Examination) -> Iterator[Finding]:
    """One head that uses the keys of another although each has its own."""
    anatomy = examination.anatomy
    kv = examination.num_kv_heads or anatomy.num_heads
    if kv != anatomy.num_heads or anatomy.num_heads < 2 or not examination.dead:
        return
    keys, values, queries = {}, {}, {}
    for row in anatomy.rows:
        keys[row.head], values[row.head] = row.key_sources[0], row.value_sources[0]
        queries[row.head] = row.query_source
    for held, name in ((keys, "keys"), (values, "values"), (queries, "queries")):
        if 1 < len(set(held.values())) < anatomy.num_heads or (
            len(set(held.values())) < anatomy.num_heads
            and len({len(set(one.values())) for one in (keys, values, queries)}) > 1
            and any(len(set(one.values())) == anatomy.num_heads for one in (keys, values))
        ):
            reused = next(h for h in held if list(held.values()).count(held[h]) > 1)
            products = [p for p in anatomy.projections if (anatomy.sources[p.out.number] == held[reused][0]).any()]
            yield Finding.named(
                "projection-reused",
                f"several heads use the same {name}: {len(set(held.values()))} different ones for "
                f"{anatomy.num_heads} heads, while {', '.join(examination.dead)} does not matter",
                products[-1].operation.where if products else None,
            )
            return
