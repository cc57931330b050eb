"""Tensors that forward makes on the CPU wherever its input is: found without another device, by pretending one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.recorder.source import where_of
from course_lib.recorder.watcher import is_mapped

from ..examination import Examination
from ..lines import of_attribute
from ..patient import OURS, Patient, line_of
from ..report import Finding

ELSEWHERE = torch.device("meta")  # stands for the other device; nothing is ever put there
MOVES = ("to", "copy_", "type_as", "cuda")
QUESTIONS = ("__get__", "__set__", "size", "dim", "stride", "__len__", "is_floating_point", "numel")
INDEXING = ("__getitem__", "__setitem__", "index_select")  # indices may lie on the CPU


class _Met(Exception):
    """A tensor of the CPU met one of the other device."""


class Pretence(TorchFunctionMode):
    """Lets x and the weights say that they lie on another device, and follows who was moved there and who was not.

    Args:
        away: the tensors that lie there from the start.
        owned: whether tensors from outside that are not among them are left on the CPU.
    """

    def __init__(self, away: list[Tensor], *, owned: bool) -> None:
        super().__init__()
        self.away = {id(tensor) for tensor in away}
        self.made: dict[int, str | None] = {}
        self.owned = owned
        self.alive: list[Tensor] = list(away)  # an id is only a name as long as its tensor lives
        self.met: tuple[str, str | None, tuple[int, ...]] | None = None

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        tensors = list(_tensors((args, kwargs)))
        if any(is_mapped(one) for one in tensors):  # torch.vmap hands on tensors of its own: nothing can be said
            raise NotImplementedError("torch.vmap")
        if func == Tensor.device.__get__ and self._is_away(args[0]):
            return ELSEWHERE
        moved = name in MOVES and any(self._is_away(one) for one in tensors[1:])
        if any(thing == ELSEWHERE for thing in (*args, *kwargs.values()) if isinstance(thing, (torch.device, str))):
            moved = True
            args, kwargs = _brought_home(args), {key: _brought_home((one,))[0] for key, one in kwargs.items()}
        if not moved and name not in MOVES and name not in QUESTIONS:
            here = [one for one in tensors if one.dim() > 0 and not self._is_away(one)]
            if here and name not in INDEXING and any(self._is_away(one) for one in tensors):
                self.met = (name, self.made.get(id(here[0]), None), tuple(here[0].shape))
                raise _Met
        result = func(*args, **kwargs)
        away = moved or any(self._is_away(one) for one in tensors)
        before = next((self.made[id(one)] for one in tensors if id(one) in self.made), None)
        for tensor in _tensors(result):
            self.alive.append(tensor)
            if away:
                self.away.add(id(tensor))
            elif id(tensor) not in self.made:
                self.made[id(tensor)] = before or _line()
        return result

    def _is_away(self, tensor: Any) -> bool:
        if id(tensor) in self.away:
            return True
        return not self.owned and isinstance(tensor, Tensor) and id(tensor) not in self.made


def _brought_home(things: tuple) -> tuple:
    return tuple("cpu" if isinstance(one, (torch.device, str)) and one == ELSEWHERE else one for one in things)


def _tensors(thing: Any) -> Iterator[Tensor]:
    if isinstance(thing, Tensor):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for part in thing:
            yield from _tensors(part)
    elif isinstance(thing, dict):
        yield from _tensors(tuple(thing.values()))


def _line() -> str | None:
    """The author's line that runs."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((*OURS, "<frozen")):
        frame = frame.f_back
    return None if frame is None else where_of(frame.f_code.co_filename, frame.f_lineno)


def check_device(examination: Examination) -> Iterator[Finding]:
    """Whatever forward makes must be made where x is; what a module keeps must be a buffer."""
    patient = examination.patient
    x = examination.x.clone()
    module = isinstance(patient.original, nn.Module)
    code = patient.copy(torch.float64)
    kept = [*code.parameters(), *code.buffers()] if module else []
    pretence = Pretence([x, *kept], owned=module)
    line = None
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), pretence:
            patient.call(code, x)
    except _Met as met:
        line = line_of(met)
    except Exception:  # a device that is only pretended may not please everybody; then nothing can be said
        return
    if pretence.met is None:
        return
    name, made, shape = pretence.met
    if made is None:  # it was there before: a plain attribute, or a tensor of the examiner's own call
        made = _plain_attribute(patient)
        if made is None and patient.told:
            return
    words = f"with x and the weights elsewhere, `{name}` meets a tensor of the CPU with the shape {shape}"
    yield Finding.named("device-pinned", words, made or line)


def _plain_attribute(patient: Patient) -> str | None:
    """Where a module keeps a tensor that `.to(device)` does not move."""
    for module in patient.code.modules() if isinstance(patient.code, nn.Module) else ():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                return of_attribute(patient.code, name)
    return None
