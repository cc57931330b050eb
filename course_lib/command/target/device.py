"""Builds code on the device that the user names, whatever device the code asks for by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from course_lib.command.root import CourseError

GPU = re.compile(r"(cuda|mps|xpu)(:\d+)?")


@contextmanager
def building_on(device: str | None) -> Iterator[None]:
    """Make tensors on one device; None leaves it to the code.

    Raises:
        CourseError: this machine has no such device.
    """
    if device is None:
        yield
        return
    try:
        torch.empty(0, device=device)
    except Exception:
        raise CourseError(f"--device {device}: this machine has none; give --device cpu.") from None
    with torch.device(device), _Redirected(device):
        yield


class _Redirected(TorchFunctionMode):
    """Puts on one device what the code would put on a GPU: `device="cuda"`, `.to("cuda")`, `.cuda()`."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if getattr(func, "__name__", "") == "cuda":
            return args[0].to(self.device)
        args = tuple(self._here(one) for one in args)
        return func(*args, **{name: self._here(one) for name, one in (kwargs or {}).items()})

    def _here(self, thing: Any) -> Any:
        is_device = isinstance(thing, (str, torch.device)) and GPU.fullmatch(str(thing))
        return self.device if is_device else thing
