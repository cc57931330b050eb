"""The warm process behind walls, seen from outside: it has imported torch, and makes a process for each notebook."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from collections import deque
from typing import Any

from .inside.wire import Channel
from .session import STARTING
from .walls import Walls

QUICKLY = 2.0  # seconds to wait for what should have happened already


class Warm:
    """One warm process. Its methods may be called by one thread at a time.

    Args:
        walls: what stands around it.
        settings: for it, as Sandbox makes them.

    Raises:
        OSError, EOFError, ValueError: it could not be started; the words say why.
    """

    def __init__(self, walls: Walls, settings: dict[str, Any]) -> None:
        self._control, theirs = socket.socketpair()
        self._control.settimeout(STARTING)
        self._number = 0
        self._said: deque[bytes] = deque(maxlen=40)  # the last lines of its standard error
        self._begun = threading.Event()
        self.process: subprocess.Popen | None = None
        self._failed: OSError | None = None
        self._keeper = threading.Thread(target=self._keep, args=(walls, settings, theirs), daemon=True)
        self._keeper.start()
        self._begun.wait()
        try:
            self.can_be_alone = bool(self._hear("ready"))
        except BaseException:
            self.stop()
            raise

    def open(self) -> tuple[int, Channel]:
        """Make a process for a notebook; its number and its channel.

        Raises:
            OSError, EOFError, ValueError: the warm process is gone.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._number += 1
            request = json.dumps({"do": "open", "number": self._number}).encode()
            socket.send_fds(self._control, [request], [theirs.fileno()])
            self._hear("open")
            end = ours.detach()
        return self._number, Channel(end, end)

    def close(self, number: int) -> None:
        """End a notebook's process, if it is still there, and all that it made.

        Raises:
            OSError, EOFError, ValueError: the warm process is gone.
        """
        self._control.sendall(json.dumps({"do": "close", "number": number}).encode())
        self._hear("closed")

    def is_gone(self) -> bool:
        """Whether it ended; it gets a moment, because its notebooks are gone before it is."""
        try:
            self.process.wait(QUICKLY / 4)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """End it with all its notebooks."""
        self._control.close()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(QUICKLY)  # it ends its notebooks and then itself
            self.process.kill()
            self.process.wait()
            self._keeper.join(QUICKLY)
            self.process.stderr.close()

    def _keep(self, walls: Walls, settings: dict[str, Any], theirs: socket.socket) -> None:
        """Start it in a thread that lives as long: bubblewrap dies with the thread that started it."""
        try:
            with theirs:
                self.process = subprocess.Popen(
                    walls.command("template", settings), env=walls.environment(), stdin=theirs,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C is for us: we end it when we are done
                )  # fmt: skip
        except (OSError, ValueError) as error:
            self._failed = error
            return
        finally:
            self._begun.set()
        with contextlib.suppress(ValueError, OSError):
            for line in self.process.stderr:
                self._said.append(line[:1000])

    def _hear(self, key: str) -> Any:
        if self._failed is not None:
            raise self._failed
        line = b""
        while not line.endswith(b"\n"):
            part = self._control.recv(4096)
            if not part:
                self._keeper.join(QUICKLY)
                said = [one.decode(errors="replace").strip() for one in self._said]
                raise EOFError(next((one for one in reversed(said) if one), "it ended"))
            line += part
        return json.loads(line)[key]
