"""Measure the doctor on published bugs: python -m benchmarks.real_bugs [--fetch] [id ...]."""

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from course_lib.about import version

from .cases import CASES, UNMEASURED
from .runner import fetch, measured
from .summary import lines, totals

RESULTS = Path(__file__).with_name("results.json")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each case and the totals; a whole run is stored in results.json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_bugs", description=__doc__)
    parser.add_argument("ids", nargs="*", help="cases (default: all, whose results are stored)")
    parser.add_argument("--fetch", action="store_true", help="fetch the code into the cache first")
    options = parser.parse_args(arguments)
    unknown = set(options.ids) - {case.id for case in CASES}
    if unknown:
        parser.error(f"there is no case {min(unknown)}; the table is benchmarks/real_bugs/cases.toml.")
    chosen = [case for case in CASES if not options.ids or case.id in options.ids]
    if options.fetch:
        fetch(chosen)
    rows = []
    for row in measured(chosen):
        rows.append(row)
        print("\n".join(lines(row)), flush=True)
    print("\n".join(f"{name}: {value}" for name, value in totals(rows).items()))
    if not options.ids:
        store(rows)
    return 0


def store(rows: Sequence[dict[str, Any]]) -> None:
    versions = {"course": version(), "torch": torch.__version__, "python": platform.python_version()}
    left_out = [asdict(case) for case in UNMEASURED]
    data = {"versions": versions, "totals": totals(rows), "cases": list(rows), "left out": left_out}
    RESULTS.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
