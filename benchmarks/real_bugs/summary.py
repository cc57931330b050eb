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
    yield f"    says {', '.join(doctor['says']) or 'nothing'}; of the fixed code: {', '.join(doctor['accused after']) or 'nothing'}"  # noqa: E501


def totals(rows: Sequence[Row]) -> dict[str, str]:
    """Return each count as "n of m", where m are the cases that it can be asked of."""
    measured = [row for row in rows if "not measured" not in row]
    doctors = [row["doctor"] for row in measured]
    counts = {name: _count([doctor[name] for doctor in doctors]) for name in ("found", "named", "first", "line")}
    counts["accused after the fix"] = _count([bool(doctor["accused after"]) for doctor in doctors])
    counts |= {f"noticed by {name}": _count([row["others"][name] for row in measured]) for name in METHODS}
    return counts | {"cases": str(len(rows)), "not measured": str(len(rows) - len(measured))}


def _count(answers: Sequence[bool | None]) -> str:
    asked = [one for one in answers if one is not None]
    return f"{sum(asked)} of {len(asked)}"
