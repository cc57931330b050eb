"""Grade on this machine: a small class in this process, a larger one in several, which nobody else can reach.

The processes are connected by pipes that only they hold. There is no port: whoever can connect to a port of this
machine could run code as the teacher.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from .grading import GradingTask, ungraded
from .marks import StudentResult
from .worker import TRIES, grade_in_worker
from .worker_config import SMALL_CLASS, WorkerConfig, worker_context


def grade_here(tasks: Iterable[GradingTask], config: WorkerConfig, workers: int | None) -> Iterator[StudentResult]:
    """Grade many students with several processes; None starts one per core.

    Yields:
        The results in the order in which they are finished, one per student.

    Raises:
        NoSandbox, ValueError: As in `grade_in_worker`.
    """
    waiting = iter(tasks)
    first = list(itertools.islice(waiting, SMALL_CLASS + 1))
    everything = itertools.chain(first, waiting)
    count = workers or os.cpu_count() or 1
    if len(first) <= SMALL_CLASS or count == 1:
        yield from (grade_in_worker(task, config) for task in everything)
        return
    pool = [_Process(config) for _ in range(count)]
    try:
        yield from _spread(everything, pool)
    finally:
        for process in pool:
            process.end()


def _spread(tasks: Iterator[GradingTask], pool: list[_Process]) -> Iterator[StudentResult]:
    while True:
        for process in pool:
            if process.task is None and (task := next(tasks, None)) is not None:
                process.give(task)
        busy = {process.connection: process for process in pool if process.task}
        if not busy:
            return
        for connection in wait(list(busy)):
            if result := busy[connection].take():  # pyright: ignore[reportArgumentType]  # only these were waited for
                yield result


class _Process:
    """A worker process, which is started again if it dies."""

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.task: GradingTask | None = None
        self.tries = 0
        self._start()

    def _start(self) -> None:
        context = worker_context()
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, self.config), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, task: GradingTask) -> None:
        self.task = task
        with suppress(OSError):  # it died: `take` sees it
            self.connection.send(task)

    def take(self) -> StudentResult | None:
        """Return what it sent; None where it died and was started again with the same student."""
        task = self.task
        assert task is not None
        try:
            result = self.connection.recv()
        except (EOFError, OSError):
            self.end()
            self._start()
            self.tries += 1
            if self.tries < TRIES:
                self.give(task)
                return None
            result = ungraded(task, f"Grading this took {TRIES} workers down; your teacher will look at it.")
        if isinstance(result, Exception):
            raise result
        self.task, self.tries = None, 0
        return result

    def end(self) -> None:
        self.connection.close()
        self.process.join(2)
        self.process.kill()


def _serve(connection: Connection, config: WorkerConfig) -> None:
    """Grade what comes until the other end is closed, also by its death."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    with suppress(EOFError, OSError):
        while True:
            try:
                result: StudentResult | Exception = grade_in_worker(connection.recv(), config)
            except ValueError as error:  # NoSandbox among them
                result = error
            connection.send(result)
