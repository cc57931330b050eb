"""Plain data in frames: numbers, words and tensors cross the wall, objects never do.

A frame is two lengths of 4 bytes, JSON, and the tensors in the format of safetensors. Nothing is pickled: what comes
from a student's process can be wrong, but it can't run anything here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

HEAD = struct.Struct(">II")
LARGEST = 64 << 20  # bytes of a frame
LARGEST_TEXT = 8 << 20  # of these JSON, which becomes a hundred times as much memory here when it is all brackets
DEEPEST, LONGEST, MOST = 12, 2_000_000, 100_000  # levels, letters of a text, things in a message


class Broken(Exception):
    """A frame that is no frame: too large, cut off, or not what it says."""


class Late(Exception):
    """Nothing came in time."""


@dataclass(frozen=True)
class Made:
    """An input that is code: run the source, then call what it names.

    Attributes:
        source: Python that imports torch, or what the exercise gives.
        name: of the function to call.
        arguments: plain data and tensors.
    """

    source: str
    name: str
    arguments: tuple[Any, ...] = ()

    def build(self) -> Any:
        """Run the source in a namespace of its own and call it."""
        namespace: dict[str, Any] = {"__name__": "made"}
        exec(compile(self.source, "<made>", "exec"), namespace)
        return namespace[self.name](*self.arguments)


@dataclass(frozen=True, eq=False)
class Parts:
    """A module, as its class's name and its tensors."""

    kind: str
    state: dict[str, Tensor]


@dataclass(frozen=True)
class Other:
    """Something that is no plain data, as the name of its type."""

    kind: str


def pack(message: Any) -> bytes:
    """A message as one frame.

    Raises:
        Broken: it is too large, too deep or has too many parts.
    """
    tensors: dict[str, Tensor] = {}
    text = json.dumps(_plain(message, tensors, 0)).encode()
    blob = safetensors.torch.save(tensors) if tensors else b""
    if len(text) + len(blob) > LARGEST or len(text) > LARGEST_TEXT or len(tensors) > MOST:
        raise Broken(f"{len(text) + len(blob)} bytes are more than a message may have")
    return HEAD.pack(len(text), len(blob)) + text + blob


def unpack(text: bytes, blob: bytes) -> Any:
    """The message of a frame.

    Raises:
        Broken: it can't be read.
    """
    if int.from_bytes(blob[:8], "little") > LARGEST_TEXT:
        raise Broken("a list of tensors that is larger than it may be")
    try:
        tensors = safetensors.torch.load(blob) if blob else {}
        return _value(json.loads(text), tensors, 0)
    except Broken:
        raise
    except Exception as error:  # whatever a forger thought of
        raise Broken(f"a message can't be read ({type(error).__name__})") from None


def _plain(value: Any, tensors: dict[str, Tensor], depth: int) -> Any:
    if depth > DEEPEST or len(tensors) > MOST:
        raise Broken("a result with too many levels or parts")
    if value is None or isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value if value is None else (bool, int, float)[_number(value)](value)
    if isinstance(value, str):
        return str(value[:LONGEST])
    if isinstance(value, Tensor):
        return _tensor(value, tensors)
    if isinstance(value, (tuple, list, set, frozenset)):
        kind = "tuple" if isinstance(value, tuple) else "list" if isinstance(value, list) else "set"
        if len(value) > MOST:
            raise Broken("a result with too many parts")
        return {kind: [_plain(one, tensors, depth + 1) for one in value]}
    if isinstance(value, dict):
        return {
            "dict": [[_plain(key, tensors, depth + 1), _plain(one, tensors, depth + 1)] for key, one in value.items()]
        }
    if isinstance(value, Made):
        return {"made": [value.source, value.name, _plain(list(value.arguments), tensors, depth + 1)]}
    if isinstance(value, nn.Module):
        state = {
            str(name): _tensor(one, tensors) for name, one in value.state_dict().items() if isinstance(one, Tensor)
        }
        return {"module": [type(value).__name__[:100], state]}
    return {"other": type(value).__name__[:100]}


def _number(value: Any) -> int:
    return 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2


def _tensor(value: Tensor, tensors: dict[str, Tensor]) -> Any:
    plain = torch.Tensor.detach(value)
    if plain.layout != torch.strided or plain.is_complex() or plain.is_quantized or plain.is_meta:
        return {"other": f"{str(plain.dtype).removeprefix('torch.')} tensor on {plain.device} ({plain.layout})"}
    if plain.numel() * plain.element_size() > LARGEST:
        raise Broken("a tensor that is larger than a message may be")
    key = str(len(tensors))
    tensors[key] = torch.empty(plain.shape, dtype=plain.dtype).copy_(plain)  # a plain tensor of its own, on the CPU
    return {"tensor": key}


def _value(data: Any, tensors: dict[str, Tensor], depth: int) -> Any:
    if depth > DEEPEST * 2:
        raise Broken("a message with too many levels")
    if data is None or isinstance(data, (bool, int, float)):
        return data
    if isinstance(data, str):
        return data.encode(errors="replace").decode()  # half a pair of surrogates can't be written to a page
    if not isinstance(data, dict) or len(data) != 1:
        raise Broken("a message of no known kind")
    ((kind, inner),) = data.items()
    if kind == "tensor":
        return tensors[inner]
    if kind in ("tuple", "list", "set"):
        values = [_value(one, tensors, depth + 1) for one in inner]
        return {"tuple": tuple, "list": list, "set": set}[kind](values)
    if kind == "dict":
        return {_value(key, tensors, depth + 1): _value(one, tensors, depth + 1) for key, one in inner}
    if kind == "made":
        source, name, arguments = inner
        return Made(str(source), str(name), tuple(_value(arguments, tensors, depth + 1)))
    if kind == "module":
        name, state = inner
        return Parts(str(name)[:100], {str(key): _value(one, tensors, depth + 1) for key, one in state.items()})
    if kind == "other":
        return Other(str(inner)[:100])
    raise Broken("a message of no known kind")


class Channel:
    """Two ends of a connection, which may be one socket or two pipes."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading, self.writing = reading, writing

    def send(self, message: Any, deadline: float | None = None) -> None:
        """Send a message.

        Raises:
            Broken: the other side is gone, or the message can't be sent.
            Late: the other side didn't take it by the deadline, a time of time.monotonic().
        """
        rest = memoryview(pack(message))
        with _broken_if_gone():
            # A write that waits is as long as the other side wants, whatever was said before about there being room.
            os.set_blocking(self.writing, deadline is None)
            while rest:
                self._wait(self.writing, select.POLLOUT, deadline)
                with contextlib.suppress(BlockingIOError):
                    rest = rest[os.write(self.writing, rest[: 1 << 16]) :]

    def receive(self, deadline: float | None = None) -> Any:
        """Wait for a message.

        Raises:
            Broken: the other side is gone, or sent what is no message.
            Late: nothing whole came by the deadline.
        """
        text, blob = HEAD.unpack(self._exactly(HEAD.size, deadline))
        if text + blob > LARGEST or text > LARGEST_TEXT:
            raise Broken("a message that is larger than it may be")
        return unpack(self._exactly(text, deadline), self._exactly(blob, deadline))

    def close(self) -> None:
        """Close both ends. What is asked afterwards raises Broken: their numbers may belong to others by then."""
        ends = {self.reading, self.writing} - {-1}
        self.reading = self.writing = -1
        for end in ends:
            os.close(end)

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        parts = bytearray()
        with _broken_if_gone():
            while len(parts) < count:
                self._wait(self.reading, select.POLLIN, deadline)
                part = os.read(self.reading, min(count - len(parts), 1 << 20))
                if not part:
                    raise BrokenPipeError
                parts += part
        return bytes(parts)

    @staticmethod
    def _wait(end: int, event: int, deadline: float | None) -> None:
        if deadline is None:
            return
        poll = select.poll()
        poll.register(end, event)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise Late("nothing came in time")


@contextlib.contextmanager
def _broken_if_gone() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError):  # ValueError: poll has no number below 0
        raise Broken("the other side is gone") from None
