"""A learner's answer that runs in the learner's own process."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.diagnosis import diagnose
from course_lib.tracing import SourceLine, is_foreign, map_instances, torch_private

from .answer import Asked, Backward, Called, Ran
from .answering import (
    TimeLimit,
    build_described,
    build_module,
    call_backward,
    call_function,
    describe_error,
    is_empty,
    run_module,
    time_limit,
)
from .answering.from_source import MADE
from .copies import built, copied
from .learner_error import LearnerError

COURSE_FOLDER = str(Path(__file__).resolve().parents[1])
STANDARD_LIBRARY = str(Path(contextlib.__file__).resolve().parent)
SECONDS = 10.0  # per call; the slowest right answer takes a hundredth of it


class LocalAnswer:
    """A function or class in this process; PyTorch's random stream is as before after each call.

    Args:
        code: The answer.
        seconds: How long one call may take.
    """

    def __init__(self, code: Any, seconds: float = SECONDS) -> None:
        self.code, self.seconds = code, seconds
        self.is_empty, self.name = is_empty(code), getattr(code, "__name__", "")
        self.kind = _kind(code)

    def call(self, arguments: Sequence[Any], seed: int) -> Called:
        """See `Answer`."""
        given = built(tuple(arguments))  # before the clock: what the course makes may import for seconds
        with _own_errors(self.seconds):
            result, changed = call_function(self.code, given, seed)
            return Called(_plain(result), changed)

    def calls(self, calls: Sequence[Sequence[Any]]) -> Iterator[Called]:
        """See `Answer`."""
        return (self.call(arguments, seed) for seed, arguments in enumerate(calls))

    def backwards(self, calls: Sequence[tuple[Sequence[Any], Sequence[Tensor]]]) -> Iterator[Backward]:
        """See `Answer`."""
        for seed, (arguments, cotangents) in enumerate(calls):
            given = built(tuple(arguments))
            with _own_errors(self.seconds):
                backward = Backward(**call_backward(self.code, given, cotangents, seed))
            yield backward

    def build(self, sizes: Sequence[int], seed: int) -> LocalModule:
        """See `Answer`."""
        with _own_errors(self.seconds):
            module, described = build_described(self.code, sizes, seed)
        if not isinstance(module, nn.Module):
            name = self.code.__name__
            report = {"kind": "TypeError", "message": f"it is no `nn.Module`: write `class {name}(nn.Module)`"}
            raise LearnerError(report)
        return LocalModule(module, described, self.seconds)

    def diagnose(self, sizes: Sequence[int], x: Tensor, options: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """See `Answer`; lines of the course's own files are left out."""
        with _own_errors(self.seconds):
            report = diagnose(build_module(self.code, sizes, 1).eval(), x, **options)
        found = []
        for finding in report.findings:
            own = finding.where is None or not getattr(finding.where, "file", "").startswith(COURSE_FOLDER)
            found.append(finding.as_dict() | {"where": finding.where if own else None})
        return found


class LocalModule:
    """A module in this process; see `BuiltModule`."""

    def __init__(self, module: nn.Module, described: dict[str, Any], seconds: float) -> None:
        self._module, self._seconds = module, seconds
        self.parameters: dict[str, tuple[int, ...]] = described["parameters"]
        self.forward: bool = described["forward"]
        self.plain_modules: list[str] = described["plain_modules"]
        self.plain_tensors: list[str] = described["plain_tensors"]
        self.buffered: int = described["buffered"]
        self.shared: dict[str, str] = described["shared"]
        self.dtypes: dict[str, str] = described["dtypes"]

    def run(self, weights: Mapping[str, Tensor], inputs: Sequence[Any], **options: Any) -> Ran:
        """See `BuiltModule`."""
        with _own_errors(self._seconds):
            ran = run_module(self._module, weights, copied(tuple(inputs)), **options)
            return Ran(**{**ran, "result": _plain(ran["result"])})

    def runs(self, asked: Sequence[Asked]) -> Iterator[Ran]:
        """See `BuiltModule`."""
        return (self.run(one.weights, one.inputs, **one.options) for one in asked)


def _plain(result: Any) -> Any:
    """Turn tensors of a class of the learner's own into plain ones: their operators may do anything."""
    with torch_private.without_function_modes():
        return map_instances(Tensor, lambda one: one if type(one) is Tensor else one.as_subclass(Tensor), result)


def _kind(code: Any) -> str:
    if inspect.isclass(code):
        return "class"
    if isinstance(code, nn.Module):
        return "instance"
    return "function" if callable(code) else type(code).__name__


@contextlib.contextmanager
def _own_errors(seconds: float) -> Iterator[None]:
    """Turn an error of the learner's code into a LearnerError, and keep PyTorch's random stream as it was."""
    with torch.random.fork_rng(devices=[]):
        try:
            with time_limit(seconds):
                yield
        except (Exception, TimeLimit) as error:
            report = describe_error(error, _is_own)
            where = SourceLine(report["file"], report["line"]) if report["file"] else None
            raise LearnerError(report, where) from error


def _is_own(file: str) -> bool:
    return not is_foreign(file) and not file.startswith((COURSE_FOLDER, STANDARD_LIBRARY)) and file != MADE
