"""Measure the doctor on the operators: python -m benchmarks.default_operators; it takes ten seconds."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from course_lib.about import version
from course_lib.diagnosis import Report, diagnose

from .operators import OPERATORS, Operator
from .right import HEADS, WIDTH, Cached, Decoder, Encoder

RESULTS = Path(__file__).with_name("results.json")
TOKENS = 5


def main() -> int:
    """Print a line for each operator, and store the results; 1 if right code is accused."""
    accused = {kind.__name__: report_of(kind, kind is not Encoder).mistakes for kind in (Decoder, Encoder, Cached)}
    print(f"accused of right code: {accused}")
    rows = [row_of(operator) for operator in OPERATORS]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    measured = [row for row in rows if "out of reach" not in row]
    named = [row["named"] for row in measured if row["named"] is not None]
    totals = {
        "operators": len(rows),
        "out of reach": len(rows) - len(measured),
        "found": f"{sum(row['found'] for row in measured)} of {len(measured)}",
        "named": f"{sum(named)} of {len(named)}",
    }
    print(totals)
    data = {"versions": {"course": version(), "torch": torch.__version__}, "totals": totals, "operators": rows}
    RESULTS.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return int(any(accused.values()))


def row_of(operator: Operator) -> dict[str, Any]:
    """Return what the doctor says of one operator."""
    row: dict[str, Any] = {"id": operator.id, "cause": operator.cause}
    if operator.why:
        return row | {"out of reach": operator.why}
    report = report_of(operator.build, operator.causal)
    return row | {
        "mistake": operator.mistake,
        "found": not report.ok,
        "named": bool(operator.accepted & set(report.mistakes)) if operator.accepted else None,
        "says": [finding.mistake or finding.title for finding in report.findings],
    }


def report_of(build: Callable[[], Decoder], causal: bool) -> Report:
    """Run the doctor with what the code ought to be: its number of heads, and which tokens may be seen."""
    torch.manual_seed(0)
    module = build().eval()
    x = torch.randn(2, TOKENS, WIDTH, generator=torch.Generator().manual_seed(1))
    keep = torch.ones(1, 1, TOKENS, TOKENS, dtype=torch.bool)
    return diagnose(module, x, causal=causal, num_heads=HEADS, keep=keep)


if __name__ == "__main__":
    sys.exit(main())
