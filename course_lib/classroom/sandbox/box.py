"""Makes sessions behind walls."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from . import container
from .inside.wire import Channel
from .limits import Limits
from .session import Session
from .walls import NoSandbox, Walls
from .warm import Warm

GONE = (OSError, EOFError, ValueError)  # what Warm raises when its process ended or said nonsense


class Sandbox:
    """Makes sessions. With warm walls torch is imported once; otherwise each session starts a process of its own.

    Attributes:
        walls: what stands around the code.
        limits: of each notebook.
        real_course: whether the course itself can be seen inside: for the doctor, never for marks.
    """

    def __init__(self, walls: Walls, limits: Limits, real_course: bool = False) -> None:
        self.walls, self.limits, self.real_course = walls, limits, real_course
        self._warm = walls.warm
        self._lock = threading.Lock()
        self._process: Warm | None = None

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """A process for one notebook, which is gone afterwards.

        Raises:
            NoSandbox: it can't be started.
            Lost: the sandbox was ended from outside.
        """
        with self._lock:
            opened = self._open_warm() if self._warm else None
        if opened is None:
            with self._once() as session:
                yield session
            return
        warm, number, channel = opened
        try:
            session = Session(channel, self.limits, warm.is_gone)
            session.ready()
            yield session
        finally:
            channel.close()
            with self._lock:
                try:
                    warm.close(number)
                except GONE:
                    self._forget(warm)

    def close(self) -> None:
        """End everything behind these walls."""
        with self._lock:
            self._forget(self._process)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _settings(self) -> dict[str, Any]:
        bubblewrap = self.walls.name == "bubblewrap"
        return {
            "memory": int(self.limits.memory), "disk": int(self.limits.disk) or 1,
            "seconds": int(self.limits.notebook) + 10,  # of the processor: when nobody is left to look at the clock
            "real_course": self.real_course, "alone": self.walls.alone and bubblewrap, "filter": bubblewrap,
        }  # fmt: skip

    def _open_warm(self) -> tuple[Warm, int, Channel] | None:
        """A fork of the warm process, or None where its notebooks couldn't be kept apart."""
        for attempt in (1, 2):
            try:
                if self._process is None:
                    self._process = Warm(self.walls, self._settings())
                if not self._process.can_be_alone:
                    self._forget(self._process)
                    self._warm = False
                    return None
                return self._process, *self._process.open()
            except NoSandbox:
                raise
            except GONE as error:
                self._forget(self._process)  # whatever became of it, the next one is fresh
                if attempt == 2:
                    raise NoSandbox(f"A sandbox could not be started: {str(error)[:300]}.") from None
        return None

    def _forget(self, warm: Warm | None) -> None:
        if warm is not None:
            warm.stop()
        if warm is self._process:
            self._process = None

    @contextlib.contextmanager
    def _once(self) -> Iterator[Session]:
        command = self.walls.command("once", self._settings())
        with tempfile.TemporaryFile() as said:
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": said}
            try:
                process = subprocess.Popen(command, env=self.walls.environment(), start_new_session=True, **streams)
            except OSError as error:
                raise NoSandbox(f"A sandbox could not be started: {error}.") from None
            with process:
                try:
                    session = Session(Channel(process.stdout.fileno(), process.stdin.fileno()), self.limits)
                    session.ready(lambda: _last_line(said))
                    yield session
                finally:
                    if self.walls.image:
                        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                            container.kill(command)
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    with contextlib.suppress(OSError):
                        process.stdin.close()


def _last_line(file: Any) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 2000))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
