"""Find tensors that forward makes on the CPU wherever its input is, by running it on a fake device."""

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import is_on_given_device, locate_attribute, move_given_devices, of_files_on
from course_lib.diagnosis.measure import FreshRuns
from course_lib.diagnosis.registry import Of, rule
from course_lib.tracing import FunctionWatch, SourceLine, last_line, tensors_in, torch_private, without_gradients

ELSEWHERE = torch.device("xpu", 7)  # the fake device; no tensor is moved there (and some code treats "meta" as special)
MOVES = ("to", "copy_", "type_as", "cuda")
READ_DEVICE = Tensor.device.__get__  # what `x.device` calls
OF_CUDA: Any = Tensor.is_cuda  # the descriptor, which is declared as the bool that it reads
QUESTIONS = ("__get__", "__set__", "size", "dim", "stride", "__len__", "is_floating_point", "numel")
JOINING = ("cat", "concat", "concatenate", "hstack", "vstack")
INDEXING = ("__getitem__", "__setitem__", "index_select")  # indices may be on the CPU


@rule(of=Of.WHOLE)
def check_device(fresh: FreshRuns) -> Iterator[Finding]:
    """Whether all tensors are on the device of x."""
    subject = fresh.run.subject
    code = subject.copy(torch.float64)
    move_given_devices(subject, code, ELSEWHERE)
    plain = [(name, one) for name, one in _kept_tensors(code) if not is_on_given_device(subject, name)]
    modules = set(map(id, code.modules())) if isinstance(code, nn.Module) else set[int]()
    device = _FakeDevice([tensor for _, tensor in plain], subject.caller, modules, sys._getframe())
    try:
        with without_gradients(), torch.random.fork_rng(devices=[]), of_files_on(code, ELSEWHERE), device:
            subject.call(code, fresh.run.x.clone())
    except _TensorLeftBehind as left:
        by_shape = sorted(plain, key=lambda one, shape=left.shape: tuple(one[1].shape) != shape)  # the likeliest first
        lines = (locate_attribute(subject, name) for name, _ in by_shape)
        where = left.made_at or next(filter(None, lines), None) or last_line(left)
        gets = f"`{left.operation}` gets a tensor on the CPU of the shape {left.shape}"
        yield Finding.named("device-pinned", f"with x and the weights on another device, {gets}", where)
    except Exception:  # some code can't run on a fake device, so nothing is known about it
        return


def _kept_tensors(code: Callable[..., Any]) -> list[tuple[str, Tensor]]:
    """Return the names and tensors of plain attributes, without those that `train` and `eval` make anew."""
    if not isinstance(code, nn.Module):
        return []
    before = [one for module in code.modules() for one in vars(module).values()]  # held, so that no id is used twice
    code.train(code.training)
    found = [(name, one) for module in code.modules() for name, one in vars(module).items() if isinstance(one, Tensor)]
    return [(name, one) for name, one in found if any(one is kept for kept in before)]


class _TensorLeftBehind(Exception):
    """A tensor on the CPU was combined with a tensor on the fake device.

    Attributes:
        operation: the operation that combined them.
        made_at: the line that made the tensor, or None if it existed before the run.
        shape: of the tensor.
    """

    def __init__(self, operation: str, made_at: SourceLine | None, shape: tuple[int, ...]) -> None:
        super().__init__(operation)
        self.operation, self.made_at, self.shape = operation, made_at, shape


class _FakeDevice(FunctionWatch):
    """Makes x and the weights report the fake device, and tracks which tensors the code moves there.

    Tensors that existed before the run count as moved, except those that a module keeps without registering them.

    Its arguments are the tensors that `module.to(device)` does not move; code that calls the subject, and the ids of
    the subject's modules, because tensors that are made outside of these count as moved; and the frame that starts the
    run. An operation that would fail raises
    _TensorLeftBehind; torch.vmap raises NotImplementedError, because its wrapped tensors can't be tracked.
    """

    def __init__(self, left_behind: list[Tensor], caller: CodeType | None, modules: set[int], stop: FrameType) -> None:
        super().__init__(stop)
        self._caller, self._modules = caller, modules
        self._made_here: dict[int, SourceLine | None] = {self.hold(tensor): None for tensor in left_behind}

    def call(self, func: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        name = getattr(func, "__name__", "")
        if name == "_parse_to" or func is torch.device:  # how `module.to(device)` reads its arguments; the device alone
            return func(*args, **kwargs)
        tensors = list(tensors_in((args, kwargs)))
        if any(map(torch_private.is_mapped, tensors)):
            raise NotImplementedError("torch.vmap")
        if func in ANSWERS and id(args[0]) not in self._made_here:
            return ANSWERS[func]
        if func is Tensor.cuda and args[1:] + tuple(kwargs.values()) in ((), (None,)):  # to the current device
            args, func = (args[0], ELSEWHERE), Tensor.to
        moved = any(map(_is_elsewhere, (*args, *kwargs.values()))) or (
            name in MOVES and any(id(one) not in self._made_here for one in tensors[1:])
        )
        here = [one for one in tensors if id(one) in self._made_here]
        if not moved and name not in (*MOVES, *QUESTIONS, *INDEXING) and len(here) < len(tensors):
            for tensor in here:
                # A plain number may stay on the CPU, and so may a tensor of no element that stands for none.
                if tensor.dim() > 0 and (tensor.shape != (0,) or name in JOINING):
                    raise _TensorLeftBehind(name, self._made_here[id(tensor)], tuple(tensor.shape))
        on_cpu = {key: "cpu" if _is_elsewhere(one) else one for key, one in kwargs.items()}
        result = func(*("cpu" if _is_elsewhere(one) else one for one in args), **on_cpu)
        moves = moved or name in ("to", "type_as")
        if moves and name != "copy_" and isinstance(result, Tensor) and any(result is one for one in tensors):
            result = result.detach()  # moving returns a new tensor, even if the device is the same
        made = [self.hold(tensor) for tensor in tensors_in(result)]
        brought = name in ("to", "type_as") and any(one is not tensors[0] for one in here)  # to a tensor left behind
        if brought or (not moved and len(here) == len(tensors)):
            self._note(made, here)
        return result

    def _note(self, made: list[int], here: list[Tensor]) -> None:
        """Record tensors made from nothing or from tensors left behind, unless the caller made them."""
        frames = list(self.author_frames())
        frame = next(iter(frames), None)
        if here:
            line = self._made_here[id(here[0])]
        elif frame is None or self._are_outside(frames):
            return
        else:
            line = SourceLine(frame.f_code.co_filename, frame.f_lineno)
        for number in made:
            self._made_here.setdefault(number, line)

    def _are_outside(self, frames: list[FrameType]) -> bool:
        """Return whether the code that calls the subject makes a tensor, by itself or in a function of its own."""
        if self._caller is None or not any(frame.f_code is self._caller for frame in frames):
            return False
        in_modules = (frame for frame in frames if id(frame.f_locals.get("self")) in self._modules)
        return frames[0].f_code is self._caller or (bool(self._modules) and next(in_modules, None) is None)


class _Index(int):
    """The number of the fake device, as `x.get_device()` gives it."""


ANSWERS: dict[Any, Any] = {READ_DEVICE: ELSEWHERE, OF_CUDA.__get__: True, Tensor.get_device: _Index(ELSEWHERE.index)}


def _is_elsewhere(argument: Any) -> bool:
    return isinstance(argument, _Index) or (isinstance(argument, (torch.device, str)) and argument == ELSEWHERE)
