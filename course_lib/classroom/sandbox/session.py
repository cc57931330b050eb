"""A student's notebook behind walls, seen from outside: what is asked goes in, plain data comes out, in time."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from .inside.wire import Broken, Channel, Late
from .limits import Limits
from .walls import NoSandbox

STARTING = 120.0  # seconds that a process may take to import torch


class Ended(Exception):
    """The notebook's process is gone or was stopped; `reason` says why, in words for the student."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Lost(Exception):
    """The sandbox itself was ended from outside, by no fault of the notebook: ask again in a new session."""


class Session:
    """One notebook's process. What it says is never trusted; how long it takes is bounded.

    Args:
        channel: to the process.
        limits: of the notebook.
        is_lost: tells, where the connection broke, whether what made the process is gone too.
    """

    def __init__(self, channel: Channel, limits: Limits, is_lost: Callable[[], bool] = lambda: False) -> None:
        self.channel, self.limits, self.is_lost = channel, limits, is_lost
        self.until = time.monotonic() + limits.notebook

    def ready(self, reason: Callable[[], str] = str) -> None:
        """Wait until the walls stand.

        Args:
            reason: gives what else was said, if they don't.

        Raises:
            NoSandbox: they don't.
            Lost: the sandbox is gone.
        """
        try:
            said = self.channel.receive(time.monotonic() + STARTING)
        except (Broken, Late) as error:
            self._raise_if_lost(error)
            raise NoSandbox(f"A sandbox could not be started: {(reason() or str(error))[:300]}.") from None
        if said != {"ready": True}:
            words = said.get("failed", said) if isinstance(said, dict) else said
            raise NoSandbox(f"A sandbox could not be started: {str(words)[:300]}.")
        self.until = time.monotonic() + self.limits.notebook

    def ask(self, do: str, seconds: float, **with_: Any) -> dict[str, Any]:
        """Ask one thing and wait for the answer.

        Raises:
            Ended: no answer came.
            Lost: the sandbox is gone.
        """
        return next(self.follow(do, seconds, **with_))

    def follow(self, do: str, seconds: float, **with_: Any) -> Iterator[dict[str, Any]]:
        """Ask one thing and give all that is said about it, without end; each message has its own time.

        Raises:
            Ended: nothing came in time, or the process is gone.
            Lost: the sandbox is gone.
        """
        try:
            self.channel.send({"do": do, "with": with_}, min(time.monotonic() + seconds, self.until))
            while True:
                message = self.channel.receive(min(time.monotonic() + seconds, self.until))
                if not isinstance(message, dict):
                    raise Ended("what it gave back was no answer")
                if "ended" in message:
                    raise Ended(_ending(message["ended"]))
                yield message
        except Late:
            left = self.until - time.monotonic()
            raise Ended(
                f"it was not done after {seconds:g} seconds"
                if left > 0.01
                else f"the {self.limits.notebook:g} seconds for the whole notebook were used up"
            ) from None
        except Broken as broken:
            self._raise_if_lost(broken)
            raise Ended(f"it ended Python or gave back what is no answer ({broken})") from None

    def _raise_if_lost(self, error: Exception) -> None:
        if isinstance(error, Broken) and self.is_lost():
            raise Lost("The sandbox was ended from outside.") from None


def _ending(status: Any) -> str:
    if isinstance(status, int) and status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = str(-status)
        return f"it crashed Python ({name[:20]})"
    return "it ended Python"
