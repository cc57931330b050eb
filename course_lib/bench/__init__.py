"""Benchmarks: how fast the forms are, always as ratios measured side by side in one run."""

from __future__ import annotations

import argparse
import json

import torch

from .cases import GROUPS
from .timing import Row, compare_times


def main(arguments: list[str] | None = None) -> int:
    """Run `course bench`: time every group of cases and print (or dump as JSON) the rows.

    Args:
        arguments: of the command line, without its name; those of the process if None.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="course bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--quick", action="store_true", help="few rounds at small sizes, to see that it runs")
    parser.add_argument("--threads", type=int, default=2, help="threads that PyTorch may use (2)")
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error(f"--threads must be at least 1, got {options.threads}")

    threads_before = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
        results = []
        for device in devices:
            for group in GROUPS:
                with torch.no_grad():
                    rows = compare_times(group.build(device, options.quick), rounds=3 if options.quick else 15)
                results.append({"group": group.title, "device": device, "rows": [row._asdict() for row in rows]})
                if not options.json:
                    _print_rows(f"{group.title} ({device}, {options.threads} threads)", rows)
    finally:
        torch.set_num_threads(threads_before)
    if options.json:
        print(json.dumps({"torch": torch.__version__, "threads": options.threads, "results": results}, indent=1))
    return 0


def _print_rows(title: str, rows: list[Row]) -> None:
    width = max(len(row.name) for row in rows)
    print(f"\n{title}\n{'':<{width}}  {'median ms':>10}  {'fastest':>9}  {'slowest':>9}  times faster than the first")
    for row in rows:
        print(f"{row.name:<{width}}  {row.median_ms:10.2f}  {row.min_ms:9.2f}  {row.max_ms:9.2f}  {row.speedup:8.2f}")
