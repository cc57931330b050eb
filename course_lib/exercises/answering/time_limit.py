"""Stop a learner's code that runs for too long, such as an endless loop."""

import _thread
import contextlib
import math
import threading
import time
from collections.abc import Iterator


class TimeLimit(Exception):
    """A learner's code ran longer than it may."""


class _Watch:
    """One thread that interrupts the main one when its time is over; a thread per call would take longer than most."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._end = self._wakes = math.inf  # when the time is over, and when the thread looks next
        self._thread: threading.Thread | None = None
        self.over = False

    def start(self, seconds: float) -> tuple[float, float]:
        """Begin a time; return when it ends, and when the one around it does."""
        with self._changed:
            around, self.over = self._end, False
            self._end = min(around, time.monotonic() + seconds)
            if self._thread is None or not self._thread.is_alive():  # after a fork it is not
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            elif self._end < self._wakes:
                self._changed.notify()
            return self._end, around

    def go_on(self, end: float) -> None:
        """Let the time around one that has ended go on, until its own end."""
        with self._changed:
            self._end = end
            if end < self._wakes:
                self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while True:
                if time.monotonic() >= self._end:
                    self.over, self._end = True, math.inf
                    _thread.interrupt_main()
                self._wakes = self._end
                self._changed.wait(None if self._end == math.inf else max(0.0, self._end - time.monotonic()))


_WATCH = _Watch()


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop the code in the block after some seconds, if it runs in the main thread, where a learner's kernel runs it.

    Blocks may be nested: the inner one ends at its own time, and at the latest with the one around it.

    Raises:
        TimeLimit: If the time is over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    end, around = _WATCH.start(seconds)
    try:
        yield
    except KeyboardInterrupt as interrupted:
        if _WATCH.over and end < around:
            _WATCH.over = False
            error = TimeLimit(f"it was stopped after {seconds:g} seconds")
            raise error.with_traceback(interrupted.__traceback__) from None
        if _WATCH.over:
            around = math.inf  # its time is over; the block around this one says so
        raise
    finally:
        _WATCH.go_on(around)
