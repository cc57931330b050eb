"""Start sessions: isolated processes that run one notebook each."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from .fork_server_client import ForkServerClient, last_line
from .guest import GuestSettings
from .guest.wire import Channel
from .isolation import Isolation, NoSandbox
from .session import ResourceLimits, Session

GONE = (OSError, EOFError, ValueError)  # what ForkServerClient raises when its process ended or sent nonsense


class Sandbox:
    """Starts sessions. Where the isolation allows forks, torch is imported once; otherwise once per session.

    Args:
        isolation: What isolates students' code.
        limits: The limits of each notebook.
        expose_course: Whether the course itself can be seen inside: for diagnosis, never for marks.
    """

    def __init__(self, isolation: Isolation, limits: ResourceLimits, expose_course: bool = False) -> None:
        self.isolation, self.limits, self.expose_course = isolation, limits, expose_course
        self._forks = isolation.forks
        self._lock = threading.Lock()
        self._server: ForkServerClient | None = None

    def start(self) -> None:
        """Begin to start it without waiting; a failure shows, and is tried again, at the first session."""
        with self._lock, contextlib.suppress(*GONE):
            if self._forks and self._server is None:
                self._server = ForkServerClient(self.isolation, self.guest_settings())

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """Start a process for one notebook, which ends with the context.

        Raises:
            NoSandbox: It cannot be started.
            SandboxLost: The sandbox was ended from outside.
        """
        with self._lock:
            opened = self._open_fork() if self._forks else None
        if opened is None:
            with self._single_session() as session:
                yield session
            return
        server, number, channel = opened
        try:
            session = Session(channel, self.limits, server.is_gone)
            session.wait_until_ready()
            yield session
        finally:
            channel.close()
            with self._lock:
                try:
                    server.close(number)
                except GONE:
                    self._forget(server)

    def close(self) -> None:
        """End every process in this sandbox."""
        with self._lock:
            self._forget(self._server)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def guest_settings(self) -> GuestSettings:
        limits = self.limits
        bubblewrap = self.isolation.name == "bubblewrap"
        return GuestSettings(limits.memory, limits.disk, int(limits.notebook) + 10, self.expose_course, bubblewrap)

    def _open_fork(self) -> tuple[ForkServerClient, int, Channel] | None:
        """Open a fork of the fork server; None if its notebooks could not be isolated from each other."""
        for attempt in (1, 2):
            try:
                server = self._server = self._server or ForkServerClient(self.isolation, self.guest_settings())
                if server.own_namespaces:
                    return server, *server.open()
                self._forget(server)
                self._forks = False
                return None
            except NoSandbox:
                raise
            except GONE as error:
                self._forget(self._server)  # stopped in any case, so that the next attempt starts a new one
                if attempt == 2:
                    raise NoSandbox(f"A sandbox could not be started: {str(error)[:300]}.") from None
        return None

    def _forget(self, server: ForkServerClient | None) -> None:
        if server is not None:
            server.stop()
        if server is self._server:
            self._server = None

    @contextlib.contextmanager
    def _single_session(self) -> Iterator[Session]:
        with tempfile.TemporaryFile() as stderr:
            try:
                process = self.isolation.start(
                    "single_run", self.guest_settings(), subprocess.PIPE, subprocess.PIPE, stderr
                )
            except OSError as error:
                raise NoSandbox(f"A sandbox could not be started: {error}.") from None
            with process:
                try:
                    session = Session(_pipes(process), self.limits)
                    session.wait_until_ready(lambda: last_line(stderr))
                    yield session
                finally:
                    self.isolation.end(process)


def _pipes(process: subprocess.Popen[bytes]) -> Channel:
    if process.stdin is None or process.stdout is None:
        raise ValueError("The process has no pipes: start it with stdin and stdout as subprocess.PIPE.")
    return Channel(process.stdout.fileno(), process.stdin.fileno())
