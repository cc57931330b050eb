"""Write tensors as bytes and read them back: what a student's process sends is checked before it becomes a tensor."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

ITEM_SIZES = {  # dtype -> bytes per element
    **{"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "bool": 1},
    **{"int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1},
}
ALIGNMENT = 16  # each tensor begins at a multiple of it
MAX_AXES, MAX_TENSORS = 64, 100_000

Described = list[Any]  # the dtype's name and the shape


class Writer:
    """The bytes of several tensors, one behind the other."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def add(self, plain: Tensor) -> Described | None:
        """Add a strided tensor without a gradient; return its dtype and shape, or None if the dtype can't be written.

        The bytes are those of a copy of its own, whose elements lie in a row in the memory of the CPU.
        """
        import torch

        dtype = str(plain.dtype).removeprefix("torch.")
        if dtype not in ITEM_SIZES:
            return None
        copy = torch.empty(plain.shape, dtype=plain.dtype).copy_(plain)
        count = copy.numel() * ITEM_SIZES[dtype]
        content = ctypes.string_at(copy.data_ptr(), count) if count else b""
        padded = content + bytes(-count % ALIGNMENT)
        self.parts.append(padded)
        self.size += len(padded)
        return [dtype, list(copy.shape)]


class Reader:
    """Reads tensors in the order in which they were written."""

    def __init__(self, blob: bytes) -> None:
        self.blob, self.at, self.taken = bytearray(blob), 0, 0

    def take(self, described: Any) -> Tensor:
        """Return the next tensor.

        Raises:
            ValueError: It is described in a way that can't be, or there are not so many bytes.
        """
        import torch

        dtype, shape = described
        whole = isinstance(shape, list) and len(shape) <= MAX_AXES and all(type(size) is int for size in shape)
        self.taken += 1
        if dtype not in ITEM_SIZES or not whole or min(shape, default=0) < 0 or self.taken > MAX_TENSORS:
            raise ValueError("a tensor of an unknown kind, or too many")
        elements = math.prod(shape)
        count = elements * ITEM_SIZES[dtype]
        if count > len(self.blob) - self.at:
            raise ValueError("a tensor that is larger than its message")
        begin, self.at = self.at, self.at + count + -count % ALIGNMENT
        if not elements:
            return torch.empty(shape, dtype=getattr(torch, dtype))
        if dtype == "bool":  # a byte that is neither 0 nor 1 is no bool
            return torch.frombuffer(self.blob, dtype=torch.uint8, count=elements, offset=begin).view(shape) != 0
        return torch.frombuffer(self.blob, dtype=getattr(torch, dtype), count=elements, offset=begin).view(shape)

    def is_at_end(self) -> bool:
        """Return whether all bytes were taken."""
        return self.at == len(self.blob)
