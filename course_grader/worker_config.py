"""What every worker needs, and its sandboxes. Nothing here imports torch, so that a sandbox can start beside it."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing.context
import multiprocessing.forkserver
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .sandbox import ResourceLimits, Sandbox, choose_isolation

SMALL_CLASS = 12  # students that one process grades before another one has imported torch


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration that every worker needs.

    Attributes:
        limits: The limits of each student's code.
        unsafe, image: As in `choose_isolation`.
        hidden: Folders that students' code must not see; they may not exist on another machine.
        course: The version of the course that marks are given with.
    """

    limits: ResourceLimits
    unsafe: bool = False
    image: str | None = None
    hidden: tuple[str, ...] = ()
    course: str = ""


@cache
def sandboxes(config: WorkerConfig) -> tuple[Sandbox, Sandbox]:
    """Return this process's sandboxes, for grading and for diagnosis, each of which imports torch once.

    Raises:
        NoSandbox: Students' code cannot be isolated here.
    """
    isolation = choose_isolation(config.unsafe, config.image, tuple(map(Path, config.hidden)))
    pair = Sandbox(isolation, config.limits), Sandbox(isolation, config.limits, expose_course=True)
    for sandbox in pair:
        atexit.register(sandbox.close)
    return pair


def start_early(config: WorkerConfig, students: int) -> None:
    """Let another process import torch while this one does: the sandbox of a small class, else the workers' parent."""
    with contextlib.suppress(ValueError):  # NoSandbox, or a system without fork: reported when it is needed
        if students <= SMALL_CLASS:
            sandboxes(config)[0].start()
        else:
            worker_context()
            multiprocessing.forkserver.ensure_running()


def worker_context() -> multiprocessing.context.ForkServerContext:
    """Return the context for worker processes: forks of a process that has imported torch and has no threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["course_grader.worker"])
    return context
