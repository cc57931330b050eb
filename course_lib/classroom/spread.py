"""Many students on many processes, here or elsewhere: Dask hands the work out, each result comes back once."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .grading import Work, failed, grade
from .marks import Graded
from .sandbox import Limits, Lost, NoSandbox, Sandbox, choose

AHEAD = 3  # tasks for each worker that are sent before the first comes back: enough to be busy, few enough for memory
PATIENCE = 600.0  # seconds to wait for a scheduler that went away in the middle


@dataclass(frozen=True)
class Setting:
    """What every worker has to know.

    Attributes:
        limits: of each notebook.
        unsafe, image: as in sandbox.choose.
        hidden: folders that students' code must not see; on another machine they may not be there.
        course: version of the course that marks are given with.
    """

    limits: Limits
    unsafe: bool = False
    image: str | None = None
    hidden: tuple[str, ...] = ()
    course: str = ""


class Mismatch(ValueError):
    """A worker has another version of the course."""


def course_version() -> str:
    """The version of the course that this process has, as pip knows it."""
    try:
        return version("attention-course")
    except PackageNotFoundError:
        return "unknown"


@cache
def _boxes(setting: Setting) -> tuple[Sandbox, Sandbox]:
    """This process's sandboxes, made once: torch is imported once behind each."""
    walls = choose(setting.unsafe, setting.image, tuple(map(Path, setting.hidden)))
    boxes = Sandbox(walls, setting.limits), Sandbox(walls, setting.limits, real_course=True)
    for box in boxes:
        atexit.register(box.close)
    return boxes


def grade_here(work: Work, setting: Setting) -> dict[str, Any]:
    """Grade one student in this process.

    Returns:
        Plain data of a Graded. Whatever goes wrong in grading itself leaves a result that asks for a teacher's look.

    Raises:
        NoSandbox: students' code can't be run here.
        Mismatch: this process has another version of the course.
    """
    if setting.course != course_version():
        raise Mismatch(
            f"A worker has version {course_version()} of the course, you have {setting.course}: install yours there."
        )
    for _ in range(3):
        try:
            return grade(work, *_boxes(setting)).as_dict()
        except Lost:  # no fault of the student's: once more
            continue
        except NoSandbox:
            raise
        except Exception as error:  # a mistake of ours must not stop the run for the others
            reason = f"Grading itself failed here ({type(error).__name__}); your teacher will look at it."
            return failed(work, reason).as_dict()
    return failed(work, "The sandbox was stopped from outside three times; your teacher will look at it.").as_dict()


def spread(
    works: Iterable[Work],
    setting: Setting,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    say: Callable[[str], None] = print,
) -> Iterator[Graded]:
    """Grade many students.

    Args:
        works: what is to be graded; taken one by one as workers get free.
        setting: for the workers.
        scheduler: address of a Dask scheduler, such as "tcp://10.0.0.1:8786"; None starts workers on this machine.
        workers: how many to start on this machine; None takes one a core.
        say: is told when the scheduler goes away and comes back.

    Yields:
        Graded, in the order in which they get done; each student once.

    Raises:
        NoSandbox, Mismatch: as in grade_here.
        ConnectionError: the scheduler can't be reached.
    """
    waiting, done = iter(works), set()
    back = [work for work in [next(waiting, None)] if work is not None]
    if not back:
        return  # nothing to do, no workers to start
    patience = 0.0
    while True:
        with _client(scheduler, workers, patience) as client:
            flying: dict[Any, Work] = {}
            with _until_lost():
                while True:
                    room = max(4, AHEAD * sum(client.nthreads().values()))
                    while len(flying) < room and (work := back.pop() if back else next(waiting, None)) is not None:
                        flying[client.submit(grade_here, work, setting, pure=False)] = work
                    if not flying:
                        return
                    for future in _finished(flying):
                        graded = _result(future, flying[future])
                        work = flying.pop(future)
                        if work.student not in done:
                            done.add(work.student)
                            yield graded
            back += flying.values()
        say("The scheduler went away; waiting for it, nothing is lost.")
        patience = PATIENCE


@contextlib.contextmanager
def _until_lost() -> Iterator[None]:
    """Stop quietly where the scheduler can't be asked any more; grade_here never raises one of these."""
    try:
        yield
    except (OSError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError):
        return


def _finished(flying: dict[Any, Work]) -> list[Any]:
    """Wait for at least one future."""
    from distributed import wait

    while not any(future.status != "pending" for future in flying):
        with contextlib.suppress(TimeoutError):
            wait(list(flying), timeout=2, return_when="FIRST_COMPLETED")
        next(iter(flying)).client.nthreads()  # raises where the scheduler is gone
    return [future for future in flying if future.status != "pending"]


def _result(future: Any, work: Work) -> Graded:
    from distributed import KilledWorker

    try:
        return Graded.from_dict(future.result(timeout=60))
    except KilledWorker:
        return failed(work, "Grading this took several workers down; your teacher will look at it.")


@contextlib.contextmanager
def _client(scheduler: str | None, workers: int | None, patience: float) -> Iterator[Any]:
    import dask
    from distributed import Client, LocalCluster

    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # that a worker goes away is no news for a teacher
    if scheduler is None:
        count = workers or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
        options = {"n_workers": count, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "memory_limit": 0}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            yield client
        return
    with dask.config.set({"distributed.comm.timeouts.connect": "10s"}):
        client = _connected(scheduler, patience)
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # it may be gone already
            client.close(timeout=5)


def _connected(scheduler: str, patience: float) -> Any:
    from distributed import Client

    until = time.monotonic() + patience
    while True:
        try:
            return Client(scheduler, timeout=10)
        except (OSError, TimeoutError) as error:
            if time.monotonic() > until:
                words = f"The scheduler {scheduler!r} can't be reached: start it, or leave it out to use this machine."
                raise ConnectionError(words) from error
            time.sleep(2)
