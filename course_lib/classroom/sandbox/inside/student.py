"""One notebook in one process: its cells are run, then its answers, on numbers that come from outside."""

from __future__ import annotations

import inspect
import linecache
import sys
import traceback
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from .absent import Unchecked, hide_course
from .wire import Broken, Channel, Made

WORDS = 300  # letters of what an error says


def serve(channel: Channel, real_course: bool) -> None:
    """Answer what is asked until the other side goes."""
    notebook = Notebook(channel, real_course)
    channel.send({"ready": True})
    while True:
        request = channel.receive()
        try:
            answer = getattr(notebook, f"do_{request['do']}")(**request["with"])
        except BaseException as error:  # SystemExit and KeyboardInterrupt end nothing here
            answer = {"raised": told(error)}
        try:
            channel.send(answer)
        except BaseException as error:  # a student's own types may raise anything while they are packed
            reason = error if isinstance(error, Broken) else type(error).__name__
            channel.send({"raised": {"kind": "ValueError", "words": f"the result can't be sent: {reason}"}})


class Notebook:
    """The names that a notebook's cells make, and what can be asked of them."""

    def __init__(self, channel: Channel, real_course: bool) -> None:
        self.channel, self.real_course = channel, real_course
        self.main = ModuleType("__main__")
        self.built: list[nn.Module] = []

    def do_load(self, cells: list[tuple[int, str]], names: list[str], given: dict[str, str]) -> dict[str, Any]:
        """Run the cells in order; say of each that it begins and, where it stops, why; then what the names are."""
        hide_course(given, self.real_course)
        sys.modules["__main__"] = self.main
        space = self.main.__dict__
        space["display"] = space["get_ipython"] = Unchecked()  # what a notebook has and Python hasn't
        for number, source in cells:
            self.channel.send({"cell": number})
            file = f"cell {number}"
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            try:
                exec(compile(source, file, "exec"), space)
            except BaseException as error:
                self.channel.send({"cell": number, "raised": told(error)})
        return {"loaded": {name: _kind(space.get(name)) for name in names if name in space}}

    def do_call(self, name: str, arguments: list[Any], seed: int) -> dict[str, Any]:
        """Call a function; say what it gave, and what became of tensors and modules that it was given."""
        given = [one.build() if isinstance(one, Made) else one for one in arguments]
        before = [_snapshot(one) for one in given]
        torch.manual_seed(seed)
        answer = self.main.__dict__[name]
        result = answer(*given) if callable(answer) else answer
        changed = {at: _state(one) for at, one in enumerate(given) if not _same(before[at], _snapshot(one))}
        return {"result": result, "changed": changed}

    def do_build(self, name: str, sizes: tuple[int, ...], seed: int) -> dict[str, Any]:
        """Build a class; say what parameters it has."""
        torch.manual_seed(seed)
        made = self.main.__dict__[name](*sizes)
        if not isinstance(made, nn.Module):
            return {"no_module": type(made).__name__}
        module = made.double().eval()
        self.built.append(module)
        shapes = {parameter: tuple(one.shape) for parameter, one in module.named_parameters()}
        return {"built": len(self.built) - 1, "parameters": shapes}

    def do_run(self, module: int, weights: dict[str, Tensor], x: Tensor, seed: int) -> dict[str, Any]:
        """Give a module weights and run it; say what it gave, and what its input holds afterwards."""
        parameters = dict(self.built[module].named_parameters())
        with torch.no_grad():
            for name, weight in weights.items():
                parameters[name].copy_(weight)
        torch.manual_seed(seed)
        result = self.built[module](x)
        return {"result": result, "x": x}

    def do_examine(self, name: str, sizes: tuple[int, ...], x: Tensor, options: dict[str, Any]) -> dict[str, Any]:
        """Ask the doctor about a class. Only where the course is; what it says is an opinion, not a mark."""
        from course_lib.diagnosis import diagnose

        torch.manual_seed(1)
        report = diagnose(self.main.__dict__[name](*sizes).double().eval(), x, **options)
        return {"findings": [finding.as_dict() for finding in report.findings[:3]], "ok": report.ok}


def told(error: BaseException) -> dict[str, Any]:
    """An error as plain data: its kind, its first line, and the notebook's own line that it came from."""
    words = (str(error).strip().splitlines() or [""])[0][:WORDS]
    if isinstance(error, SyntaxError) and str(error.filename).startswith("cell "):
        where, text = f"{error.filename}:{error.lineno}", (error.text or "").strip()
        return {"kind": type(error).__name__, "words": error.msg[:WORDS], "where": where, "text": text[:WORDS]}
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("cell ")]
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    text = (frames[-1].line or "")[:WORDS] if frames else ""
    unwritten = isinstance(error, NotImplementedError)
    return {"kind": type(error).__name__[:100], "words": words, "where": where, "text": text, "unwritten": unwritten}


def _kind(answer: Any) -> str:
    if inspect.isclass(answer):
        return "class"
    return "function" if callable(answer) else type(answer).__name__[:100]


def _state(value: Any) -> Any:
    return value.state_dict() if isinstance(value, nn.Module) else value


def _snapshot(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    if isinstance(value, nn.Module):
        return {name: one.detach().clone() for name, one in value.state_dict().items()}
    if isinstance(value, (list, tuple)):
        return [_snapshot(one) for one in value]
    return None


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.shape == other.shape and bool(torch.equal(one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(_same, one, other))
    return True
