"""A connection that carries messages, with deadlines, so that the other end cannot make this end wait forever."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterable, Iterator
from typing import Any

from .messages import HEADER, MAX_FRAME, MAX_JSON, ProtocolError, pack, unpack


class Timeout(Exception):
    """The deadline passed."""


class Channel:
    """A connection by file descriptors: those of two pipes, or twice that of one socket."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing
        self._blocking: bool | None = None  # not known yet
        self._queued = bytearray()  # what is written while this end waits for messages
        self._read = bytearray()  # what has come of later messages

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Send a message.

        Raises:
            ProtocolError: The other end is gone, or the message cannot be encoded.
            Timeout: The other end did not take the message by the deadline, a time of `time.monotonic()`.
        """
        self._queued += pack(message)
        with _error_if_gone():
            # A blocking write waits as long as the other end likes, even where `poll` said that there is room.
            self._set_blocking(deadline is None)
            while self._queued:
                self._wait(self.writing, select.POLLOUT, deadline)
                self._write()

    def queue(self, messages: Iterable[Any]) -> None:
        """Have messages sent as far as the other end takes them while this end receives, so that neither waits.

        Raises:
            ProtocolError: The other end is gone, or a message cannot be encoded.
        """
        for message in messages:
            self._queued += pack(message)
        with _error_if_gone():
            self._set_blocking(False)
            self._write()

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
        with _error_if_gone():
            while len(self._read) < count:
                self._wait(self.reading, select.POLLIN, deadline)
                with contextlib.suppress(BlockingIOError):
                    part = os.read(self.reading, max(count - len(self._read), 1 << 16))
                    if not part:
                        raise BrokenPipeError
                    self._read += part
        content = bytes(self._read[:count])
        del self._read[:count]
        return content

    def _set_blocking(self, blocking: bool) -> None:
        if blocking != self._blocking:
            os.set_blocking(self.writing, blocking)
            self._blocking = blocking

    def _write(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._queued:
                del self._queued[: os.write(self.writing, self._queued[: 1 << 16])]

    def _wait(self, descriptor: int, event: int, deadline: float | None) -> None:
        """Wait for an event, and meanwhile write what is queued."""
        if deadline is None:
            return
        while True:
            poll = select.poll()
            if self._queued:
                poll.register(self.writing, select.POLLOUT)
            poll.register(descriptor, event | (select.POLLOUT if self._queued and descriptor == self.writing else 0))
            ready = dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1000))
            if not ready:
                raise Timeout("nothing came in time")
            if event == select.POLLOUT or ready.get(descriptor, 0) & ~select.POLLOUT:
                return
            self._write()


@contextlib.contextmanager
def _error_if_gone() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError):  # ValueError: `poll` refuses a negative descriptor
        raise ProtocolError("the other side is gone") from None
