"""Run code along its other paths: weights returned, another kernel, training, a mask that hides nothing."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.calling import KERNEL, KEYS, WEIGHTS, first_tensor, parameters_of
from course_lib.tracing import WithoutDropout

from .calling import call_with, handing, usual_call
from .other_kernels import other_kernels, other_switches
from .run import Run
from .subject import Subject, SubjectFailed


@dataclass(frozen=True, eq=False)
class OtherPath:
    """A second way to run code that should compute the same.

    Attributes:
        name: what differs, as a phrase: "with need_weights=True".
        subject: the code on this path.
        code: the copy to run; a fresh one if None.
        output: of the plain run's x.
        training: whether it runs in training, where noise and penalties of training may differ on purpose.
    """

    name: str
    subject: Subject
    code: Callable[..., Any] | None
    output: Tensor
    training: bool = False

    def sees_the_future(self, x: Tensor) -> bool:
        """Return whether a change of the last token changes any earlier output."""
        later = x.clone()
        later[:, -1] += 3.0
        return float((self.subject.run(later, self.code) - self.output)[:, :-1].abs().max()) > 1e-9


def other_paths(run: Run) -> Iterator[OtherPath]:
    """Yield the paths of a module that run and give an output of the usual shape."""
    subject = run.subject
    if not subject.is_module:
        return
    given = run.options.has_call or run.options.offered or run.options.keep is not None
    called = given or isinstance(subject.original, nn.MultiheadAttention)
    plain = [] if called else [*_with_flags(subject), *_with_masks(run)]
    for name, other, code in (*plain, *_with_switches(subject)):
        with suppress(SubjectFailed):
            output = other.run(run.x, code)
            if output.dim() == 3 and output.shape[:2] == run.output.tensor.shape[:2]:
                yield OtherPath(name, other, code, output)
    for name, other, code in _with_flags_of_call(subject) if run.options.has_call else ():
        with suppress(SubjectFailed):
            output = other.run(run.x, code)
            if output.shape == run.output.tensor.shape:  # of several tensors the first may be another one
                yield OtherPath(name, other, code, output)
    for name, other, code in _in_training(subject):
        with suppress(SubjectFailed):
            output = other.run(run.x, code)
            if output.shape == run.output.tensor.shape and torch.equal(output, other.run(run.x, code, seed=1)):
                yield OtherPath(name, other, code, output, training=True)


Candidate = tuple[str, Subject, Callable[..., Any] | None]


def _with_flags(subject: Subject) -> Iterator[Candidate]:
    """Yield the code with the opposite of each argument that asks for its weights or for a kernel."""
    for one in parameters_of(subject.original):
        if isinstance(one.default, bool) and (WEIGHTS.fullmatch(one.name) or KERNEL.search(one.name)):
            value = not one.default
            yield f"with {one.name}={value}", _called(subject, one.name, lambda x, value=value: value), None


def _with_flags_of_call(subject: Subject) -> Iterator[Candidate]:
    """Yield the code, run by `call`, with the opposite of each argument that asks for its weights and is not given."""
    call = subject.given_call or usual_call(subject.original)
    for one in parameters_of(subject.original):
        if isinstance(one.default, bool) and WEIGHTS.fullmatch(one.name):
            value = not one.default

            def run(code: Any, x: Tensor, name: str = one.name, value: bool = value) -> Any:
                with handing(code, {name: value}):
                    return first_tensor(call(code, x))

            yield f"with {one.name}={value}", subject.with_call(run), None


def _with_masks(run: Run) -> Iterator[Candidate]:
    """Yield the code with a mask (batch, token) of the keys that hides nothing, which can't hold a causal mask.

    Of the ways to say so, the one is taken that leaves the last token's output as it was, or none.
    """
    if run.x.shape[0] == run.x.shape[1]:
        return
    ways = (
        lambda x: torch.ones(x.shape[:2], dtype=torch.bool, device=x.device),
        lambda x: torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device),
        lambda x: torch.ones(x.shape[:2], dtype=torch.int64, device=x.device),
    )
    for one in parameters_of(run.subject.original)[1:]:
        if not KEYS.search(one.name) or one.default is not None:
            continue
        for way in ways:
            other = _called(run.subject, one.name, way)
            with suppress(SubjectFailed):
                output = other.run(run.x)
                if output.shape == run.output.tensor.shape and torch.allclose(output[:, -1], run.output.tensor[:, -1]):
                    yield f"with a mask of the keys in `{one.name}` that hides nothing", other, None
                    break


def _called(subject: Subject, name: str, value: Callable[[Tensor], Any]) -> Subject:
    return Subject(subject.original, call_with(subject.original, **{name: value}))


def _with_switches(subject: Subject) -> Iterator[Candidate]:
    """Yield the code with another value of each of its attributes that chooses a kernel."""
    for prefix, module in subject.modules.items():
        for name, value in (*other_switches(module), *other_kernels(module)):
            code = subject.copy(torch.float64)
            examined = subject.examined_in(code)
            if not isinstance(examined, nn.Module) or examined is subject.examined:  # it is in no copy
                return
            setattr(examined.get_submodule(prefix), name, value)
            yield f"with {name}={value!r}", subject, code


def _in_training(subject: Subject) -> Iterator[Candidate]:
    """Yield the code in training without dropout; batch norms and noise are left out."""
    if any(isinstance(one, nn.modules.batchnorm._BatchNorm) for one in subject.modules.values()):
        return
    code = subject.copy(torch.float64, training=True)

    def run(copy: Callable[..., Any], x: Tensor) -> Any:
        with WithoutDropout():
            return subject.call(copy, x)

    yield "in training, without dropout", Subject(subject.original, run), code
