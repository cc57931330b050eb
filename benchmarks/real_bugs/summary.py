"""The results in words: a few lines for each case, and the totals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

METHODS = ("shape", "allclose", "two paths", "TorchCode")
SIGNS = {True: "yes", False: "no", None: "-"}
Row = Mapping[str, Any]


def lines(row: Row) -> Iterator[str]:
    """Yield what is printed of one case."""
    if "not measured" in row:
        yield f"{row['id']:32} not measured: {row['not measured']}"
        return
    doctor = row["doctor"]
    answers = "  ".join(f"{name} {SIGNS[doctor[name]]}" for name in ("found", "named", "line"))
    others = "  ".join(f"{name} {SIGNS[row['others'][name]]}" for name in METHODS)
    yield f"{row['id']:32} {answers}  |  {others}  |  differs by {row['difference']}"
    yield f"    says {_list(doctor['says'])}; of the fixed code: {_list(doctor['accused after'])}"
    if doctor["scan"] is not None:
        scan = doctor["scan"]
        yield f"    the scan says {_list(scan['says'])}; of the fixed code: {_list(scan['accused after'])}"


def totals(rows: Sequence[Row]) -> dict[str, str]:
    """Return each count as "n of m", where m are the cases that it can be asked of."""
    measured = [row for row in rows if "not measured" not in row]
    doctors = [row["doctor"] for row in measured]
    counts = {name: _count([doctor[name] for doctor in doctors]) for name in ("found", "named", "first", "line")}
    counts["accused after the fix"] = _count([bool(doctor["accused after"]) for doctor in doctors])
    scans = [doctor["scan"] for doctor in doctors if doctor["scan"] is not None]
    if scans:
        counts["found by the scan"] = _count([scan["found"] for scan in scans])
        counts["accused by the scan after the fix"] = _count([bool(scan["accused after"]) for scan in scans])
    counts |= {f"noticed by {name}": _count([row["others"][name] for row in measured]) for name in METHODS}
    return counts | {"cases": str(len(rows)), "not measured": str(len(rows) - len(measured))}


def _count(answers: Sequence[bool | None]) -> str:
    known = [answer for answer in answers if answer is not None]
    return f"{sum(known)} of {len(known)}"


def _list(sentences: Sequence[str]) -> str:
    return ", ".join(sentences) or "nothing"
