"""Build code on the device that the user names, whatever device the code asks for."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from course_lib.command.clone import CourseError

GPU = re.compile(r"(cuda|mps|xpu)(:\d+)?")


@contextmanager
def building_on(device: str | None) -> Iterator[None]:
    """Create all tensors on one device; None leaves the choice to the code.

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
    """Redirects `device="cuda"`, `.to("cuda")` and `.cuda()` to one device."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        def here(argument: Any) -> Any:
            is_gpu = isinstance(argument, (str, torch.device)) and GPU.fullmatch(str(argument))
            return self.device if is_gpu else argument

        if getattr(func, "__name__", "") == "cuda":
            return args[0].to(self.device)
        return func(*map(here, args), **{name: here(value) for name, value in (kwargs or {}).items()})
