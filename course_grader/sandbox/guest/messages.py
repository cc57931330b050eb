"""Encode messages of plain data and tensors: objects never cross the boundary of the sandbox.

A message is JSON, followed by the bytes of its tensors. Nothing is pickled: what comes from a student's process can be
wrong, but it cannot run anything here. Torch is imported when it is first needed, so that the grader can start a
sandbox, which imports torch too, before it imports torch itself.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .tensors import Reader, Writer

if TYPE_CHECKING:
    from torch import Tensor

    from course_lib.exercises import FromSource

HEADER = struct.Struct(">II")  # the number of bytes of the JSON and of the tensors
MAX_FRAME = 64 << 20  # bytes
MAX_JSON = 8 << 20  # bytes; JSON that is all brackets takes a hundred times as much memory once it is parsed
MAX_DEPTH, MAX_TEXT, MAX_PARTS = 12, 2_000_000, 100_000  # levels, characters per string, elements per message
MAX_SETTINGS = 100  # attributes of a module


class ProtocolError(Exception):
    """The received message is not valid: too large, cut off, or malformed."""


@dataclass(frozen=True, eq=False)
class ModuleState:
    """A module, represented by the name of its class, its tensors, and the numbers and flags in its attributes."""

    kind: str
    state: dict[str, Tensor]
    settings: dict[str, bool | int | float]


@dataclass(frozen=True)
class OpaqueValue:
    """A value other than plain data, represented by the name of its type."""

    kind: str


def pack(message: Any) -> bytes:
    """Encode a message as one frame.

    Raises:
        ProtocolError: The message is too large, too deeply nested or has too many parts.
    """
    tensors = Writer()
    text = json.dumps(_encode(message, tensors, 0)).encode()
    if len(text) + tensors.size > MAX_FRAME or len(text) > MAX_JSON or len(tensors.parts) > MAX_PARTS:
        raise ProtocolError(f"{len(text) + tensors.size} bytes are more than a message may have")
    return b"".join((HEADER.pack(len(text), tensors.size), text, *tensors.parts))


def unpack(text: bytes, blob: bytes) -> Any:
    """Decode the message of a frame.

    Raises:
        ProtocolError: It cannot be decoded.
    """
    try:
        tensors = Reader(blob)
        message = _decode(json.loads(text), tensors, 0)
    except ProtocolError:
        raise
    except Exception as error:  # a forged message may raise anything
        raise ProtocolError(f"a message can't be read ({type(error).__name__})") from None
    if not tensors.is_at_end():
        raise ProtocolError("a message with more bytes than its tensors have")
    return message


def _encode(value: Any, tensors: Writer, depth: int) -> Any:
    import torch

    if depth > MAX_DEPTH or len(tensors.parts) > MAX_PARTS:
        raise ProtocolError("a result with too many levels or parts")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 1 << 63):
        return float(value) if isinstance(value, float) else int(value)  # a subclass becomes its base class
    if isinstance(value, str):
        return str(value[:MAX_TEXT])
    if isinstance(value, torch.Tensor):
        return _encode_tensor(value, tensors)
    if isinstance(value, tuple) and type(value).__module__ == "torch.return_types":  # such as that of `x.max(dim=0)`
        return {"named": [type(value).__name__[:100], _encode(list(value), tensors, depth + 1)]}
    if isinstance(value, (tuple, list, set, frozenset)):
        kind = "tuple" if isinstance(value, tuple) else "list" if isinstance(value, list) else "set"
        if len(value) > MAX_PARTS:
            raise ProtocolError("a result with too many parts")
        return {kind: [_encode(element, tensors, depth + 1) for element in value]}
    if isinstance(value, range) and max(map(abs, (value.start, value.stop, value.step))) <= MAX_PARTS:
        return {"range": [value.start, value.stop, value.step]}
    return _encode_object(value, tensors, depth)


def _encode_object(value: Any, tensors: Writer, depth: int) -> dict[str, Any]:
    import torch

    if isinstance(value, dict):
        pairs = value.items()
        return {"dict": [[_encode(part, tensors, depth + 1) for part in pair] for pair in pairs]}
    if isinstance(value, from_source_class()):
        return {"made": [value.source, value.name, _encode(list(value.arguments), tensors, depth + 1)]}
    if isinstance(value, torch.nn.Module):
        parameters = value.state_dict().items()
        state = {str(name): _encode_tensor(p, tensors) for name, p in parameters if isinstance(p, torch.Tensor)}
        return {"module": [type(value).__name__[:100], state, _settings(value)]}
    return {"other": type(value).__name__[:100]}


def _settings(module: Any) -> dict[str, bool | int | float]:
    """Return the numbers and flags in a module's attributes, which are not in its state dict."""
    plain = {name: value for name, value in vars(module).items() if type(value) in (bool, int, float)}
    return dict(list(plain.items())[:MAX_SETTINGS])


def _encode_tensor(value: Tensor, tensors: Writer) -> dict[str, Any]:
    import torch

    plain = torch.Tensor.detach(value)
    other = {"other": f"{str(plain.dtype).removeprefix('torch.')} tensor on {plain.device} ({plain.layout})"}
    if plain.layout != torch.strided or plain.is_quantized or plain.is_meta:
        return other
    if plain.numel() * plain.element_size() > MAX_FRAME:
        raise ProtocolError("a tensor that is larger than a message may be")
    described = tensors.add(plain)
    return {"tensor": described} if described else other


def _decode(data: Any, tensors: Reader, depth: int) -> Any:
    if depth > MAX_DEPTH * 2:
        raise ProtocolError("a message with too many levels")
    if data is None or isinstance(data, (bool, int, float)):
        return data
    if isinstance(data, str):
        return data.encode(errors="replace").decode()  # a lone surrogate cannot be written to a page
    if not isinstance(data, dict) or len(data) != 1:
        raise ProtocolError("a message of an unknown kind")
    ((kind, content),) = data.items()
    if kind == "tensor":
        return tensors.take(content)
    if kind not in _DECODERS:
        raise ProtocolError("a message of an unknown kind")
    return _DECODERS[kind](content, lambda part: _decode(part, tensors, depth + 1))


Decode = Callable[[Any], Any]


def from_source_class() -> type[FromSource]:
    """Import the class when it is first needed, because its package imports torch.

    The grader has it from the course; in the sandbox its folder is mounted beside this one.
    """
    if __name__.startswith("course_grader."):
        from course_lib.exercises import FromSource
    else:
        from answering.from_source import FromSource  # pyright: ignore[reportMissingImports]  # mounted there
    return FromSource


def _decode_range(content: Any, _: Decode) -> range:
    if not isinstance(content, list) or any(type(end) is not int or abs(end) > MAX_PARTS for end in content):
        raise ProtocolError("a range of other ends than small integers")
    return range(*content)


def _decode_source(content: Any, decode: Decode) -> FromSource:
    source, name, arguments = content
    return from_source_class()(str(source), str(name), tuple(decode(arguments)))


def _decode_named(content: Any, decode: Decode) -> tuple[Any, ...]:
    import torch

    name, values = content
    kind = getattr(torch.return_types, str(name), tuple)
    return kind(decode(values)) if isinstance(kind, type) and issubclass(kind, tuple) else tuple(decode(values))


def _decode_module(content: Any, decode: Decode) -> ModuleState:
    name, state, settings = content
    numbers = {str(key)[:100]: value for key, value in settings.items() if isinstance(value, (bool, int, float))}
    return ModuleState(str(name)[:100], {str(key): decode(value) for key, value in state.items()}, numbers)


_DECODERS: dict[str, Callable[[Any, Decode], Any]] = {
    "tuple": lambda content, decode: tuple(map(decode, content)),
    "list": lambda content, decode: list(map(decode, content)),
    "set": lambda content, decode: set(map(decode, content)),
    "dict": lambda content, decode: {decode(key): decode(value) for key, value in content},
    "range": _decode_range,
    "named": _decode_named,
    "made": _decode_source,
    "module": _decode_module,
    "other": lambda content, _: OpaqueValue(str(content)[:100]),
}
