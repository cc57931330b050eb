"""What turning by position does: with the same token everywhere, only the places of queries and keys can differ."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ..anatomy import Row, key_sides
from ..examination import Examination
from ..lines import Line, line_at
from ..report import Finding
from .angles import angle_reader, makes_positions, reads_angles, turns_dead
from .cache_lines import join_of
from .layout import in_pieces
from .projections import meeting_of
from .turned import SAME, Turned, turned_only, turned_rows


def check_places(examination: Examination) -> Iterator[Finding]:
    """Queries and keys must both be turned by angles, each by those of its own place."""
    anatomy, readers = examination.anatomy, reads_angles(examination)
    if not readers or not anatomy.rows:
        return
    way = examination.trace.ancestors([value for meeting in anatomy.meetings for value, _ in meeting.sides()])
    rows = turned_rows(examination) if readers & way else []
    if not any(len(one.tokens) > 1 for one in rows):
        return
    by_head = [[one for one in rows if one.row.head == head] for head in {one.row.head for one in rows}]
    apart = any(_range([one.own for one in head if one.own is not None]) > SAME for head in by_head)
    queries_differ = any(not _alike([one.query for one in head]) for head in by_head)
    keys_differ = any(not _alike(list(one.keys)) for one in rows)
    pieces = in_pieces(anatomy) and examination.causal
    if apart and not turned_only(by_head):  # positions are added, not turned: nobody's mistake
        return
    if apart and keys_differ and queries_differ and pieces:
        words = "with the same token everywhere, a query and its own token's key are not turned alike in every place"
        yield Finding.named("stale-cache", words, _angle_line(examination))
    elif apart and keys_differ != queries_differ:
        yield from _one_side(examination, rows, "queries" if keys_differ else "keys", pieces)
    elif not apart and not keys_differ:
        yield _nowhere(examination, rows, pieces)
    elif not apart and pieces:
        yield from _twice_in_one_place(examination, rows)


def _range(numbers: list[float]) -> float:
    return max(numbers) - min(numbers) if numbers else 0.0


def _alike(vectors: list[Tensor]) -> bool:
    return all(float((one - vectors[0]).norm()) <= SAME * float(vectors[0].norm()) for one in vectors)


def _one_side(examination: Examination, rows: list[Turned], side: str, pieces: bool) -> Iterator[Finding]:
    """Only queries or only keys are turned."""
    other = {"queries": "keys", "keys": "queries"}[side]
    row = rows[-1].row
    meeting = meeting_of(examination.anatomy, row)
    value = meeting.sides()[_side_of(examination, row, side)][0]
    words = f"with the same token everywhere, the {other} differ from place to place and the {side} do not"
    if pieces and reads_angles(examination) & examination.trace.ancestors([value]):
        yield Finding.named(
            "stale-cache", f"{words}: in each piece they are turned from zero", _angle_line(examination)
        )
        return
    join = join_of(examination, row, "keys") if side == "keys" and turns_dead(examination) else None
    where = meeting.operation.where if join is None else line_at(join.place_in(meeting.operation.code))
    yield Finding.named("rotary-unused", words, where)


def _side_of(examination: Examination, row: Row, side: str) -> int:
    second = key_sides(examination.anatomy)[row.mix.operation.frames[:1]] >= 0
    return int(second == (side == "keys"))


def _nowhere(examination: Examination, rows: list[Turned], pieces: bool) -> Finding:
    """Angles reach queries and keys and are the same for every token."""
    words = "with the same token everywhere, queries and keys are the same in every place, although they are turned"
    passes: dict[int, set[int]] = {}
    for one in rows:
        passes.setdefault(one.row.mix.operation.number, set()).add(one.row.query)
    if pieces and max(map(len, passes.values())) == 1:
        return Finding.named(
            "stale-cache", f"{words}: each token stands where the first one stood", _angle_line(examination)
        )
    made = makes_positions(examination, examination.x.shape[1])
    turning = angle_reader(examination)
    code = examination.anatomy.meetings[0].operation.code
    where = made.where if made is not None else line_at(turning.place_in(code)) if turning is not None else None
    return Finding.named("rotary-unused", words, where)


def _twice_in_one_place(examination: Examination, rows: list[Turned]) -> Iterator[Finding]:
    """Two keys that one query sees are turned alike."""
    for one in rows:
        pair = one.pair_alike() if len(one.tokens) > 1 else None
        if pair is not None:
            words = (
                f"query {one.row.query} sees the keys of the tokens {pair[0]} and {pair[1]} turned by the same angles"
            )
            yield Finding.named("stale-cache", words, _unturned_join(examination, one.row) or _angle_line(examination))
            return


def _unturned_join(examination: Examination, row: Row) -> Line | None:
    """The line that joins keys that were kept before they were turned."""
    join, readers = join_of(examination, row, "keys"), reads_angles(examination)
    if join is None or all(readers & examination.trace.ancestors([value]) for value in join.inputs):
        return None
    return join.where


def _angle_line(examination: Examination) -> Line | None:
    """The line that says where the tokens of a piece stand: its range of positions, or its rows of a table."""
    mixes = sorted({row.mix.operation.number for row in examination.anatomy.rows})
    queries = {row.query for row in examination.anatomy.rows if row.mix.operation.number == mixes[-1]}
    before = mixes[-2] if len(mixes) > 1 else 0
    made = makes_positions(examination, len(queries), after=before) or angle_reader(examination, table=True)
    return None if made is None else made.where
