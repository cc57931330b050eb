"""Talk to a running notebook from outside the sandbox: send requests and receive plain data within a time limit."""

from __future__ import annotations

import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .guest.messages import ProtocolError
from .guest.wire import Channel, Timeout
from .isolation import NoSandbox

Request = tuple[str, Mapping[str, Any]]  # what is asked for, and its arguments
STARTUP_SECONDS = 120.0  # that a process may take to import torch

TOO_LONG = (
    "A loop that never ends, one that keeps more and more in memory, or work that grows much faster than its input "
    "takes this long.",
    "Which loop may never end, and what does each round keep?",
)
CRASHED = (
    "Memory that has run out, or functions that call each other without an end, stop Python like this.",
    "How large can each tensor get, and what ends each call of a function by itself?",
)
ENDED = (
    "`os._exit` and the like end Python, and nothing below is run.",
    "Which line ends Python, and what should it do instead?",
)


class NotebookEnded(Exception):
    """The notebook's process has ended or was stopped.

    Attributes:
        reason: Why, for the student.
        lead: What does that, as a sentence, and a question that leads on; None if neither fits.
    """

    def __init__(self, reason: str, lead: tuple[str, str] | None = None) -> None:
        super().__init__(reason)
        self.reason, self.lead = reason, lead


class SandboxLost(Exception):
    """The sandbox itself was ended from outside, by no fault of the notebook: try again in a new session."""


@dataclass(frozen=True)
class ResourceLimits:
    """The resources that one notebook may use.

    Attributes:
        cell: Seconds that one cell may run.
        answer: Seconds that one call of an answer may take.
        notebook: Seconds for everything.
        memory: Bytes beyond what Python and torch use.
        disk: Megabytes that may be written, to a folder in memory that nobody else sees.
    """

    cell: float = 10.0
    answer: float = 10.0
    notebook: float = 60.0
    memory: int = 2 << 30
    disk: int = 16

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if not isinstance(value, (int, float)):
                raise TypeError(f"{limit.name} is {value!r}: give a number.")
            if not 0 < value < math.inf:
                raise ValueError(f"{limit.name} is {value}: a limit must be more than 0, and finite.")


class Session:
    """One notebook's process. What it sends is never trusted; the time it takes is limited.

    When the connection breaks, `is_lost` says whether the process that started it is gone too.
    """

    def __init__(self, channel: Channel, limits: ResourceLimits, is_lost: Callable[[], bool] = lambda: False) -> None:
        self.channel, self.limits, self.is_lost = channel, limits, is_lost
        self.until = time.monotonic() + limits.notebook

    def wait_until_ready(self, reason: Callable[[], str] = str) -> None:
        """Wait until the process has restricted itself.

        Raises:
            NoSandbox: It could not; if nothing was received, `reason` returns what the process wrote elsewhere.
            SandboxLost: The sandbox is gone.
        """
        try:
            message = self.channel.receive(time.monotonic() + STARTUP_SECONDS)
            problem = message.get("failed", message) if isinstance(message, dict) else message
        except (ProtocolError, Timeout) as error:
            self._raise_if_lost(error)
            message, problem = None, reason() or error
        if message != {"ready": True}:
            raise NoSandbox(f"A sandbox could not be started: {str(problem)[:300]}.")
        self.until = time.monotonic() + self.limits.notebook

    def ask(self, request: str, seconds: float, **arguments: Any) -> dict[str, Any]:
        """Make a request and wait for the answer.

        Raises:
            NotebookEnded: No answer came.
            SandboxLost: The sandbox has ended.
        """
        return next(self.follow(request, seconds, **arguments))

    def ask_all(self, requests: Sequence[Request], seconds: float) -> Iterator[dict[str, Any]]:
        """Make requests together and yield the answer to each as it arrives; the time limit is per answer.

        The notebook works through them one after the other, as if each had been made after the answer to the one
        before: only the time that it takes to hand over is saved.

        Raises:
            NotebookEnded, SandboxLost: As in `ask`; the answers before have been yielded.
        """
        with self._reasons(seconds):
            self.channel.queue({"do": request, "with": arguments} for request, arguments in requests)
        for _ in requests:
            yield self._next(seconds)

    def follow(self, request: str, seconds: float, **arguments: Any) -> Iterator[dict[str, Any]]:
        """Make a request and yield every message that arrives, indefinitely; the time limit is per message.

        Raises:
            NotebookEnded: No message came in time, or the process has ended.
            SandboxLost: The sandbox has ended.
        """
        with self._reasons(seconds):
            self.channel.send({"do": request, "with": arguments}, min(time.monotonic() + seconds, self.until))
        while True:
            yield self._next(seconds)

    def _next(self, seconds: float) -> dict[str, Any]:
        with self._reasons(seconds):
            message = self.channel.receive(min(time.monotonic() + seconds, self.until))
        if not isinstance(message, dict):
            raise NotebookEnded("what it sent back was not a valid answer")
        if "ended" in message:
            raise NotebookEnded(*_describe_exit(message["ended"]))
        return message

    @contextlib.contextmanager
    def _reasons(self, seconds: float) -> Iterator[None]:
        """Turn what can happen to the connection into what happened to the notebook."""
        try:
            yield
        except Timeout:
            left = self.until - time.monotonic()
            raise NotebookEnded(
                f"it had not finished after {seconds:g} seconds"
                if left > 0.01
                else f"the {self.limits.notebook:g} seconds for the whole notebook were used up",
                TOO_LONG,
            ) from None
        except ProtocolError as error:
            self._raise_if_lost(error)
            raise NotebookEnded(f"it ended Python or sent back no valid answer ({error})", ENDED) from None

    def _raise_if_lost(self, error: Exception) -> None:
        if isinstance(error, ProtocolError) and self.is_lost():
            raise SandboxLost("The sandbox was ended from outside.") from None


def _describe_exit(status: Any) -> tuple[str, tuple[str, str]]:
    if isinstance(status, int) and status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = str(-status)
        return f"it crashed Python ({name[:20]})", CRASHED
    return "it ended Python", ENDED
