"""Tensors that forward makes on the CPU wherever its input is: found without another device, by pretending one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.recorder.call import tensors_in
from course_lib.recorder.watcher import is_mapped

from .. import given_mask
from ..examination import Examination
from ..lines import OURS, Line, of_attribute
from ..patient import line_of
from ..report import Finding

ELSEWHERE = torch.device("meta")  # stands for the other device; nothing is ever put there
MOVES = ("to", "copy_", "type_as", "cuda")
DEVICE = Tensor.device.__get__  # what `x.device` calls
QUESTIONS = ("__get__", "__set__", "size", "dim", "stride", "__len__", "is_floating_point", "numel")
INDEXING = ("__getitem__", "__setitem__", "index_select")  # indices may lie on the CPU


class _Met(Exception):
    """A tensor of the CPU met one of the other device."""


class Pretence(TorchFunctionMode):
    """Lets x and the weights say that they lie on another device, and follows who was moved there and who was not.

    What was there before counts as moved, but for tensors that a module keeps without registering them.

    Args:
        left_behind: the tensors that `module.to(device)` does not move.
        examiner: code object of the examiner's `call`; what that makes is the examiner's own business.
    """

    def __init__(self, left_behind: list[Tensor], examiner: CodeType | None) -> None:
        super().__init__()
        self.here: dict[int, str | None] = {id(tensor): None for tensor in left_behind}  # id -> line that made it
        self.alive: list[Tensor] = list(left_behind)  # an id is only a name as long as its tensor lives
        self.examiner = examiner
        self.met: tuple[str, str | None, tuple[int, ...]] | None = None

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        tensors = list(tensors_in((args, kwargs)))
        if any(is_mapped(one) for one in tensors):  # torch.vmap hands on tensors of its own: nothing can be said
            raise NotImplementedError("torch.vmap")
        if func == DEVICE and id(args[0]) not in self.here:
            return ELSEWHERE
        moved = name in MOVES and any(id(one) not in self.here for one in tensors[1:])
        if any(thing == ELSEWHERE for thing in (*args, *kwargs.values()) if isinstance(thing, (torch.device, str))):
            moved = True
            args, kwargs = _brought_home(args), {key: _brought_home((one,))[0] for key, one in kwargs.items()}
        here = [one for one in tensors if id(one) in self.here]
        if not moved and name not in (*MOVES, *QUESTIONS, *INDEXING) and len(here) < len(tensors):
            wide = [one for one in here if one.dim() > 0]
            if wide:
                self.met = (name, self.here[id(wide[0])], tuple(wide[0].shape))
                raise _Met
        result = func(*args, **kwargs)
        if moved and name != "copy_" and isinstance(result, Tensor) and any(result is one for one in tensors):
            result = result.detach()  # it was moved to where it is: another tensor all the same
        stays = not moved and len(here) == len(tensors)
        line = _line(self.examiner) if stays and not here else None
        for tensor in tensors_in(result):
            self.alive.append(tensor)
            if stays and (here or line is not None):
                self.here.setdefault(id(tensor), self.here[id(here[0])] if here else line)
        return result


def _brought_home(things: tuple) -> tuple:
    return tuple("cpu" if isinstance(one, (torch.device, str)) and one == ELSEWHERE else one for one in things)


def _line(examiner: CodeType | None) -> Line | None:
    """The author's line that runs; None where it is the examiner's own."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((*OURS, "<frozen")):
        if frame.f_code.co_filename == given_mask.__file__:
            return None  # a mask that the doctor made
        frame = frame.f_back
    if frame is None or frame.f_code is examiner:
        return None
    return Line(frame.f_code.co_filename, frame.f_lineno)


def check_device(examination: Examination) -> Iterator[Finding]:
    """Whatever forward makes must be made where x is; what a module keeps must be a buffer."""
    patient = examination.patient
    code = patient.copy(torch.float64)
    left_behind = _left_behind(code)
    pretence = Pretence([tensor for _, tensor in left_behind], patient.examiner)
    line = None
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), pretence:
            patient.call(code, examination.x.clone())
    except _Met as met:
        line = line_of(met)
    except Exception:  # a device that is only pretended may not please everybody; then nothing can be said
        return
    if pretence.met is None:
        return
    name, made, shape = pretence.met
    if made is None:
        made = next((of_attribute(code, name) for name, tensor in left_behind if tuple(tensor.shape) == shape), None)
        made = made or next((of_attribute(code, name) for name, _ in left_behind), None)
    words = f"with x and the weights elsewhere, `{name}` meets a tensor of the CPU with the shape {shape}"
    yield Finding.named("device-pinned", words, made or line)


def _left_behind(code: Callable[..., Any]) -> list[tuple[str, Tensor]]:
    """Tensors that modules keep as plain attributes."""
    return [
        (name, value)
        for module in (code.modules() if isinstance(code, nn.Module) else ())
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    ]
