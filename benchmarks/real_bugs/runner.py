"""Fetch the code of cases, and measure each side in a separate process."""

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from typing import Any

from .case import Case
from .cases import CASES
from .judging import judged
from .measurement import measure
from .sources import SUPPORT, NotFetched, Source, fetched
from .torchcode import TORCHCODE

PRELOADED = ["torch", "course_lib.diagnosis", "benchmarks.real_bugs.cases"]


def fetch(cases: Sequence[Case]) -> None:
    """Fetch both sides of each case and what several of them need; say what could not be had."""
    sides = [side for case in cases for side in (case.before, case.after)]
    for source in dict.fromkeys([SUPPORT, TORCHCODE, *sides]):
        try:
            fetched(source)
        except NotFetched as error:
            print(f"{source}: {error}", file=sys.stderr)


def measured(cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Measure each side in a fresh process, because two versions of a package can't be imported into one."""
    method = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
    context = get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(PRELOADED)
    with ProcessPoolExecutor(1, context, max_tasks_per_child=1) as pool:
        for case in cases:
            sides = [pool.submit(measured_side, case.id, source) for source in (case.before, case.after)]
            yield judged(case, *(side.result() for side in sides))


def measured_side(case_id: str, source: Source) -> dict[str, Any]:
    """Measure one side of the case with this id; called in a worker process."""
    return measure(next(case for case in CASES if case.id == case_id), source)
