"""Control the fork server from outside the sandbox: an isolated process that forks one process per notebook."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from typing import Any, BinaryIO

from .guest import GuestSettings
from .guest.wire import Channel
from .isolation import Isolation
from .session import STARTUP_SECONDS

GRACE_SECONDS = 2.0  # to wait for an event that should have happened already


class ForkServerClient:
    """One fork server. Its methods may be called by one thread at a time.

    Attributes:
        pid: The process id of the isolated process.

    Raises:
        OSError, ValueError: It could not be started; the message says why.
    """

    def __init__(self, isolation: Isolation, settings: GuestSettings) -> None:
        self._control, guest_end = socket.socketpair()
        self._control.settimeout(STARTUP_SECONDS)
        self._number = 0
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed by stop
        started: Future[subprocess.Popen[bytes]] = Future()
        arguments = (started, isolation, settings, guest_end)
        threading.Thread(target=self._run, args=arguments, daemon=True).start()
        self._process = started.result()
        self._replies = self._control.makefile("rb")
        self.pid = self._process.pid

    @functools.cached_property
    def own_namespaces(self) -> bool:
        """Whether it can give each notebook namespaces of its own, where that was asked for; waits until it is ready.

        Raises:
            OSError, EOFError, ValueError: It could not be started; the message says why.
        """
        return bool(self._receive("ready"))

    def open(self) -> tuple[int, Channel]:
        """Fork a process for a notebook; return its number and its channel.

        Raises:
            OSError, EOFError, ValueError: The fork server has ended.
        """
        ours, guest_end = socket.socketpair()
        with ours, guest_end:
            self._number += 1
            request = json.dumps({"do": "open", "number": self._number}).encode()
            socket.send_fds(self._control, [request], [guest_end.fileno()])
            self._receive("open")
            descriptor = ours.detach()
        return self._number, Channel(descriptor, descriptor)

    def close(self, number: int) -> None:
        """End a notebook's process, if it still exists, and all processes that it started.

        Raises:
            OSError, EOFError, ValueError: The fork server has ended.
        """
        self._control.sendall(json.dumps({"do": "close", "number": number}).encode())
        self._receive("closed")

    def is_gone(self) -> bool:
        """Return whether the fork server ended; wait briefly, because its notebooks end before it does."""
        try:
            self._process.wait(GRACE_SECONDS / 4)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End the fork server with all its notebooks."""
        self._replies.close()
        self._control.close()
        if "own_namespaces" in vars(self):  # else it still imports torch, and has no notebooks
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)  # it ends its notebooks and then itself
        self._process.kill()
        self._process.wait()
        self._stderr.close()

    def _run(
        self,
        started: Future[subprocess.Popen[bytes]],
        isolation: Isolation,
        settings: GuestSettings,
        guest_end: socket.socket,
    ) -> None:
        """Start the process in a thread that outlives it, because bubblewrap ends with the thread that started it."""
        try:
            with guest_end:
                process = isolation.start("fork_server", settings, guest_end, subprocess.DEVNULL, self._stderr)
        except Exception as error:
            self._control.close()
            self._stderr.close()
            started.set_exception(error)
        else:
            started.set_result(process)
            process.wait()

    def _receive(self, key: str) -> Any:
        line = self._replies.readline()
        if not line.endswith(b"\n"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)  # until then it may write the reason
            raise EOFError(last_line(self._stderr) or "it ended")
        return json.loads(line)[key]


def last_line(file: BinaryIO) -> str:
    """Return the last line of what a process wrote to a file; empty if it wrote nothing."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 2000))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
