"""Benchmarks: time, memory and the machine's limits, measured side by side in one run, and held against the goals."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from .cases import GROUPS
from .goals import judge
from .limits import measure_limits
from .machine import describe_machine
from .results import Results, load_results, stored
from .runner import measure
from .tables import format_goals, format_machine, format_tables
from .timing import DIFFERENT

__all__ = ["load_results", "main", "stored"]


def main(arguments: list[str] | None = None) -> int:
    """Run `course bench`: measure the groups of cases, print tables or JSON, and say which goals are met.

    Args:
        arguments: of the command line, without its name; those of the process if None.

    Returns:
        0, also where a goal is missed, as a benchmark reports; 1 where a case gave other numbers than the first one.
    """
    options = read_options(arguments)
    if options.list:
        for group in GROUPS:
            print(f"{group.name:<14} {group.about}")
        return 0
    threads_before = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        results = run(options)
    finally:
        torch.set_num_threads(threads_before)
    if options.save:
        options.save.write_text(results.to_json() + "\n", encoding="utf-8")
    if options.json:
        print(results.to_json())
    elif options.quick:
        print("\nThe goals are for the full sizes: run without --quick to judge them.")
    else:
        print(format_goals(results.goals))
    return int(any(DIFFERENT in sentence for table in results.groups for sentence in table.left_out))


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line, checked; a wrong word ends the program with a sentence that names the right ones."""
    parser = argparse.ArgumentParser(prog="course bench", description=__doc__)
    add = parser.add_argument
    names = [group.name for group in GROUPS]
    add("names", nargs="*", metavar="NAME", help=f"only these groups: {', '.join(names)}")
    add("--list", action="store_true", help="say what the groups compare, and stop")
    add("--quick", action="store_true", help="small sizes and few rounds, to see that it runs")
    add("--json", action="store_true", help="print JSON instead of tables (course_lib/bench/results.py describes it)")
    add("--save", type=Path, metavar="FILE", help="write the JSON to this file, too")
    add("--rounds", type=int, help="how often each case is timed, if it isn't too slow (15; 3 with --quick)")
    add("--threads", type=int, default=torch.get_num_threads(), help="threads that PyTorch may use (%(default)s)")
    add("--device", choices=("cpu", "cuda"), help="only this one (default: the CPU, and the GPU if there is one)")
    add("--memory", action=argparse.BooleanOptionalAction, default=True, help="measure memory as well")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in names:
            parser.error(f"there is no group {name!r}: choose from {', '.join(names)}")
    for name in ("threads", "rounds"):
        number = getattr(options, name)
        if number is not None and number < 1:
            parser.error(f"--{name} must be at least 1, got {number}")
    if options.save and not options.save.parent.is_dir():
        parser.error(f"--save {options.save}: there is no folder {options.save.parent}, make it first")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: PyTorch sees no GPU here, leave it out or choose cpu")
    options.rounds = options.rounds or (3 if options.quick else 15)
    return options


def run(options: argparse.Namespace) -> Results:
    """Measure what the options ask for; tables are printed as they come, unless JSON is asked for."""
    start = perf_counter()
    devices = [options.device] if options.device else ["cpu", *["cuda"] * torch.cuda.is_available()]
    groups = [group for group in GROUPS if not options.names or group.name in options.names]
    results = Results(describe_machine(), [], [])
    for device in devices:
        say(start, f"the limits of this machine, {device}")
        limits = measure_limits(device, quick=options.quick)
        results.limits.extend(limits)
        if not options.json:
            print(format_machine(results.machine, limits), flush=True)
        by_dtype = {each.dtype: each for each in limits}
        for group in groups:
            first = len(results.groups)
            for experiment in group.experiments(device, options.quick):
                say(start, f"{group.name}: {experiment.title}; {device}, {experiment.dtype}, {experiment.direction}")
                own = by_dtype[experiment.dtype]
                table = measure(group.name, experiment, device, own, rounds=options.rounds, memory=options.memory)
                results.groups.append(table)
            if not options.json:
                print(format_tables(results.groups[first:]), flush=True)
    say(start, "done")
    return results if options.quick else replace(results, goals=judge(results))


def say(start: float, what: str) -> None:
    """Tell on stderr how far it is: one line that changes in a terminal, lines elsewhere."""
    line = f"{perf_counter() - start:4.0f} s  {what}"
    if sys.stderr.isatty():
        print(f"\033[K{line}", end="\r", file=sys.stderr, flush=True)  # clear the line, write, go back to its start
    else:
        print(line, file=sys.stderr, flush=True)
