"""Keys that are kept: missing, misplaced, or left over from another prompt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ..anatomy import MANY, Row
from ..examination import Examination
from ..labels import NOTHING
from ..patient import PatientFailed
from ..report import Finding
from .blanks import is_strange
from .cache_lines import cut_away, given_back, join_of, leftover_line, written_at
from .layout import in_pieces
from .weights import seen_pattern

LEFT = 1e-4  # two runs of the same numbers are closer than this, whatever kernel and precision is inside


def check_state(examination: Examination) -> Iterator[Finding]:
    """What code keeps of one prompt must not reach the next."""
    patient, x = examination.patient, examination.x
    code = patient.copy(torch.float64)
    first = examination.trace.output.tensor
    try:
        fresh = patient.run(x)
        patient.run(x.flip(1) * 0.5 + 0.25, code)
        second = patient.run(x, code)
    except PatientFailed as failure:
        examination.outlasting = not _runs(examination)
        where = failure.line or leftover_line(examination)
        yield Finding.named("stale-cache", f"a second prompt fails: {failure}", where)
        return
    examination.outlasting = _apart(first, fresh) > LEFT
    if fresh.shape != second.shape:
        words = f"after another prompt the output has the shape {tuple(second.shape)}"
        yield Finding.named("stale-cache", words, leftover_line(examination))
        return
    apart = max(_apart(fresh, second), _apart(first, fresh) if examination.outlasting else 0.0)
    if apart > 1e-9:
        words = f"after another prompt the same x gives an output that is up to {apart:.4f} off"
        yield Finding.named("stale-cache", words, leftover_line(examination))


def _apart(one: Tensor, other: Tensor) -> float:
    """How far two outputs are apart where the first one is finite."""
    if one.shape != other.shape:
        return torch.inf
    return float((one - other).abs().nan_to_num(nan=torch.inf).where(one.isfinite(), 0.0).max())


def _runs(examination: Examination) -> bool:
    """Whether a fresh copy still does what the first one did."""
    try:
        return _apart(examination.trace.output.tensor, examination.patient.run(examination.x)) <= LEFT
    except PatientFailed:
        return False


def check_cache(examination: Examination) -> Iterator[Finding]:
    """In a run in pieces, every earlier token must be met, once."""
    anatomy = examination.anatomy
    if not in_pieces(anatomy) or not examination.causal:
        return
    met: dict[tuple[int, int], set[int]] = {}
    for row in anatomy.rows:
        met.setdefault((row.head, row.query), set()).update(row.keys)
    seen = seen_pattern(examination)
    for (head, query), keys in sorted(met.items()):
        wanted = examination.expected[:, head, query].any(0).nonzero().flatten().tolist()
        absent = [key for key in wanted if key not in keys]
        if absent and not all(seen[0, head, query, key] for key in absent):
            rows = [row for row in anatomy.rows if row.head == head and row.query >= query]
            lines = (_line(examination, row, absent, own=absent == [query]) for row in rows)
            where = next(filter(None, lines), None)
            yield Finding.named("stale-cache", f"query {query} does not meet the keys of the tokens {absent}", where)
            return
    row = _misplaced(examination, seen)
    if row is not None:
        words = f"query {row.query} meets the keys of the tokens {row.score_keys} and the values of {row.keys}"
        yield Finding.named("stale-cache", words, _line(examination, row))


def _misplaced(examination: Examination, seen: Tensor) -> Row | None:
    """A row that meets a token twice, several at once, another token's value, or tokens in an order that hides some."""
    rows = examination.anatomy.rows
    twice = [row for row in rows if len(_known(row)) != len(set(_known(row)))]
    strange = [row for row in rows if MANY in row.keys or row.score_keys != row.keys or is_strange(examination, row)]
    if twice or strange:
        return (twice or strange)[-1]
    wrong = not torch.equal(seen, examination.expected)
    return next((row for row in rows if wrong and row.keys != sorted(row.keys)), None)


def _known(row: Row) -> list[int]:
    return [key for key in row.keys if key >= 0]


def _line(examination: Examination, row: Row, absent: Sequence[int] = (), *, own: bool = False) -> str | None:
    """The line that puts a row's keys or values where they are.

    Args:
        examination: of the patient.
        row: in which something is missing or misplaced.
        absent: the tokens whose keys it should meet and does not.
        own: whether that is the newest token alone: what is read was kept before it came.
    """
    at_home = all(key in (column, NOTHING) for key, column in zip(row.score_keys, row.columns, strict=True))
    join = join_of(examination, row, "values" if at_home and row.keys != row.columns else "keys")
    if join is None:
        return None
    cut = cut_away(examination, row, join, absent)
    return cut or given_back(examination, join, own=own) or written_at(join) or join.where
