"""Examine several targets in parallel processes, and report progress."""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

TARGETS = 10  # from this many on, the progress is shown per target
Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(work: Callable[[Item], Result], items: Sequence[Item], jobs: int) -> Iterator[Result]:
    """Yield work(item) in order; with several jobs and items, each job is a process with one thread."""
    jobs = min(jobs, len(items))
    if jobs < 2:
        yield from map(work, items)
        return
    # A fork of a process whose threads hold locks may never end, so the processes start afresh.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_use_one_thread) as pool:
        yield from pool.map(work, items)


def with_progress(results: Iterable[Result], targets: Sequence[str], args: argparse.Namespace) -> Iterator[Result]:
    """Yield the results and report progress on stderr: a bar in a terminal, else a line per target."""
    count = len(targets)
    for done, (target, result) in enumerate(zip(targets, results, strict=True), 1):
        yield result
        tenth = 10 * done // count
        if count >= TARGETS and sys.stderr.isatty():
            print(f"\r{'#' * tenth}{'.' * (10 - tenth)} {done} of {count}", end="\n" * (done == count), file=sys.stderr)
        elif count > 1 and not sys.stderr.isatty():
            print(f"{args.prog}: {done} of {count}: {target}", file=sys.stderr, flush=True)


def _use_one_thread() -> None:
    import torch

    torch.set_num_threads(1)
