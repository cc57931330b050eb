"""Measure the time and the memory of the forms of attention side by side, with the limits of your machine.

Use it to see what lesson 14 shows on your own computer. It takes some minutes and ends with the goals that were set for
each form; --list shows what is compared, --quick tries everything at small sizes.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from course_lib.command import CourseError
from course_lib.timing import NOT_EQUIVALENT, Results
from tools.performance import (
    GROUPS,
    describe_machine,
    format_goals,
    format_machine,
    format_tables,
    judge,
    measure,
    measure_limits,
)


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    names = [group.name for group in GROUPS]
    add("names", nargs="*", metavar="NAME", help=f"only these groups: {', '.join(names)}")
    add("--list", action="store_true", help="print what the groups compare, and stop")
    add("--quick", action="store_true", help="small sizes and few rounds, to see that it works")
    add("--json", action="store_true", help="print JSON instead of tables (course_lib/timing/results.py describes it)")
    add("--save", type=Path, metavar="FILE", help="write the JSON to this file, too")
    add("--rounds", type=int, help="how often each case is timed, if it isn't too slow (15; 3 with --quick)")
    add(
        "--device",
        choices=("cpu", "cuda"),
        help="measure only on this device (default: the CPU, and the GPU if there is one)",
    )


def complete(options: argparse.Namespace) -> None:
    """Check the options and fill in the number of rounds.

    Raises:
        CourseError: An option is wrong; the message names what can be chosen.
    """
    names = [group.name for group in GROUPS]
    for name in set(options.names) - set(names):
        raise CourseError(f"there is no group {name!r}: choose from {', '.join(names)}")
    if options.rounds is not None and options.rounds < 1:
        raise CourseError(f"--rounds must be at least 1, got {options.rounds}")
    if options.save and not options.save.parent.is_dir():
        raise CourseError(f"--save {options.save}: there is no folder {options.save.parent}; create it first")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise CourseError("--device cuda: PyTorch sees no GPU here; leave out --device or choose cpu")
    options.rounds = options.rounds or (3 if options.quick else 15)


def run(options: argparse.Namespace) -> int:
    """Measure the groups of cases, and print tables or JSON, and which goals are met.

    Returns:
        1 if the result of a case differs from that of the first, and otherwise 0, even if a goal is missed.
    """
    complete(options)
    if options.list:
        for group in GROUPS:
            print(f"{group.name:<14} {group.about}")
        return 0
    results = measure_groups(options)
    if options.save:
        options.save.write_text(results.to_json() + "\n", encoding="utf-8")
    if options.json:
        print(results.to_json())
    elif options.quick:
        print("\nThe goals are for the full sizes: run without --quick to judge them.")
    else:
        print(format_goals(results.goals))
    return int(any(NOT_EQUIVALENT in sentence for table in results.groups for sentence in table.left_out))


def measure_groups(options: argparse.Namespace) -> Results:
    """Measure what the options name; unless they ask for JSON, each table is printed as soon as it is measured."""
    start = perf_counter()
    devices = [options.device] if options.device else ["cpu", *["cuda"] * torch.cuda.is_available()]
    results = Results(describe_machine(), [], [])
    for device in devices:
        show_progress(start, f"the limits of this machine, {device}")
        limits = measure_limits(device, quick=options.quick)
        results.limits.extend(limits)
        if not options.json:
            print(format_machine(results.machine, limits), flush=True)
        by_dtype = {each.dtype: each for each in limits}
        for group in GROUPS:
            if options.names and group.name not in options.names:
                continue
            first = len(results.groups)
            for experiment in group.experiments(device, options.quick):
                about = f"{experiment.title}; {device}, {experiment.dtype}, {experiment.direction}"
                show_progress(start, f"{group.name}: {about}")
                limit = by_dtype[experiment.dtype]
                results.groups.append(measure(group.name, experiment, device, limit, rounds=options.rounds))
            if not options.json:
                print(format_tables(results.groups[first:]), flush=True)
    show_progress(start, "done")
    return results if options.quick else replace(results, goals=judge(results))


def show_progress(start: float, what: str) -> None:
    """Print the time and the current step on stderr; in a terminal, always on the same line."""
    begin, end = ("\033[K", "\r") if sys.stderr.isatty() else ("", "\n")  # clear the line, and return to its start
    print(f"{begin}{perf_counter() - start:4.0f} s  {what}", end=end, file=sys.stderr, flush=True)
