"""Grade many students: here, or on the machines of a Dask cluster. Each result comes back once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from .grading import GradingTask, ungraded
from .local_workers import grade_here
from .marks import StudentResult
from .worker import grade_in_worker
from .worker_config import WorkerConfig

if TYPE_CHECKING:
    from distributed import Client, Future

PREFETCH = 3  # tasks per worker that are sent ahead: enough to keep it busy, few enough for memory
# What is raised if the scheduler can no longer be reached; `grade_in_worker` never raises one of these errors.
DISCONNECTED = (OSError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError)
RECONNECT_SECONDS = 600.0  # to wait for a scheduler that went away during the run


def grade_all(
    tasks: Iterable[GradingTask],
    config: WorkerConfig,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    say: Callable[[str], object] = print,
) -> Iterator[StudentResult]:
    """Grade many students.

    Args:
        tasks: What is to be graded; taken one at a time as workers become free.
        scheduler: The address of a Dask scheduler, such as "tcp://10.0.0.1:8786"; None grades on this machine.
        config, workers: As in `grade_here`.
        say: Called with a sentence when the scheduler goes away.

    Yields:
        The results in the order in which they are finished, one per student.

    Raises:
        NoSandbox, ValueError: As in `grade_in_worker`.
        ConnectionError: The scheduler cannot be reached.
    """
    if scheduler is None:
        yield from grade_here(tasks, config, workers)
        return
    with _kept_interrupt() as interrupted:
        run = _Run(iter(tasks), config, interrupted)
        patience = 0.0
        while run.has_more():  # otherwise no workers need to be started
            with _connect(scheduler, patience) as client, contextlib.suppress(*DISCONNECTED):
                yield from run.on(client)
                return
            run.requeue()
            say("The scheduler went away; waiting for it, nothing is lost.")
            patience = RECONNECT_SECONDS


@contextlib.contextmanager
def _kept_interrupt() -> Iterator[threading.Event]:
    """Note that Ctrl-C was pressed, also where Python ignores the exception, as in the destructor of a Dask future."""
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only the main thread may handle signals
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _connect(scheduler: str, patience: float) -> Iterator[Client]:
    """Connect to a scheduler, trying again for some seconds."""
    import dask.config
    from distributed import Client

    for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # a teacher need not know that a worker has ended
    with dask.config.set({"distributed.comm.timeouts.connect": "10s"}):
        client, until = None, time.monotonic() + patience
        while client is None:
            try:
                client = Client(scheduler, timeout=10)
            except (OSError, TimeoutError) as error:
                if time.monotonic() > until:
                    raise ConnectionError(
                        f"The scheduler {scheduler!r} can't be reached: start it, or leave it out to use this machine."
                    ) from error
                time.sleep(2)
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # it may have ended already
            client.close(timeout=5)


class _Run:
    """The tasks of one run that are not done: not sent yet, or sent to a worker."""

    def __init__(self, waiting: Iterator[GradingTask], config: WorkerConfig, interrupted: threading.Event) -> None:
        self.waiting, self.config, self.interrupted = waiting, config, interrupted
        self.returned: list[GradingTask] = []  # sent earlier, but the scheduler went away
        self.sent: dict[Future, GradingTask] = {}

    def has_more(self) -> bool:
        if not self.returned and (task := next(self.waiting, None)) is not None:
            self.returned.append(task)
        return bool(self.returned)

    def requeue(self) -> None:
        self.returned += self.sent.values()
        self.sent = {}

    def on(self, client: Client) -> Iterator[StudentResult]:
        """Send tasks to a client's workers and yield the results as they come."""
        while True:
            threads = client.nthreads().values()  # pyright: ignore[reportAttributeAccessIssue]  # this client is synchronous
            room = max(4, PREFETCH * sum(threads))
            while len(self.sent) < room and self.has_more():
                task = self.returned.pop()
                self.sent[client.submit(grade_in_worker, task, self.config, pure=False)] = task
            if not self.sent:
                return
            for future in self._finished(client):
                result = _result(future, self.sent[future])
                del self.sent[future]
                yield result
                self._stop_if_interrupted()

    def _finished(self, client: Client) -> list[Future]:
        from distributed import wait

        while not any(future.status != "pending" for future in self.sent):
            with contextlib.suppress(TimeoutError):
                wait(list(self.sent), timeout=2, return_when="FIRST_COMPLETED")
            self._stop_if_interrupted()
            client.nthreads()  # raises an error if the scheduler is gone
        return [future for future in self.sent if future.status != "pending"]

    def _stop_if_interrupted(self) -> None:
        if self.interrupted.is_set():
            raise KeyboardInterrupt


def _result(future: Future, task: GradingTask) -> StudentResult:
    from distributed import KilledWorker

    try:
        return future.result(timeout=60)
    except KilledWorker:
        return ungraded(task, "Grading this took several workers down; your teacher will look at it.")
