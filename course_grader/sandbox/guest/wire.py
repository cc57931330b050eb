"""A connection that carries messages, with deadlines, so that the other end cannot make this end wait forever."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterator
from typing import Any

from .messages import HEADER, MAX_FRAME, MAX_JSON, ProtocolError, pack, unpack


class Timeout(Exception):
    """The deadline passed."""


class Channel:
    """A connection by file descriptors: those of two pipes, or twice that of one socket."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Send a message.

        Raises:
            ProtocolError: The other end is gone, or the message cannot be encoded.
            Timeout: The other end did not take the message by the deadline, a time of `time.monotonic()`.
        """
        rest = memoryview(pack(message))
        with _error_if_gone():
            # A blocking write waits as long as the other end likes, even where `poll` said that there is room.
            os.set_blocking(self.writing, deadline is None)
            while rest:
                self._wait(self.writing, select.POLLOUT, deadline)
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(self.writing, rest[: 1 << 16]) :]

    def receive(self, deadline: float | None = None) -> Any:
        """Wait for a message.

        Raises:
            ProtocolError: The other end is gone, or sent no valid message.
            Timeout: No complete message came by the deadline.
        """
        text, blob = HEADER.unpack(self._read_exactly(HEADER.size, deadline))
        if text + blob > MAX_FRAME or text > MAX_JSON:
            raise ProtocolError("a message that is larger than it may be")
        return unpack(self._read_exactly(text, deadline), self._read_exactly(blob, deadline))

    def close(self) -> None:
        """Close the connection. Later calls raise ProtocolError: its descriptors may belong to other files by then."""
        descriptors = {self.reading, self.writing} - {-1}
        self.reading = self.writing = -1
        for descriptor in descriptors:
            os.close(descriptor)

    def _read_exactly(self, count: int, deadline: float | None) -> bytes:
        content = bytearray()
        with _error_if_gone():
            while len(content) < count:
                self._wait(self.reading, select.POLLIN, deadline)
                part = os.read(self.reading, min(count - len(content), 1 << 20))
                if not part:
                    raise BrokenPipeError
                content += part
        return bytes(content)

    @staticmethod
    def _wait(descriptor: int, event: int, deadline: float | None) -> None:
        if deadline is None:
            return
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise Timeout("nothing came in time")


@contextlib.contextmanager
def _error_if_gone() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError):  # ValueError: `poll` refuses a negative descriptor
        raise ProtocolError("the other side is gone") from None
