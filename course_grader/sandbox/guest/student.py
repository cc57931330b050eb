"""Run one notebook in one process: first its cells, then its answers, on inputs that come from outside."""

from __future__ import annotations
import __future__

import builtins
import contextlib
import inspect
import linecache
import sys
from types import CodeType, ModuleType
from typing import Any

import torch
from answering import (  # pyright: ignore[reportMissingImports]  # the folder is mounted beside this one
    build_described,
    build_module,
    call_backward,
    call_function,
    describe_error,
    is_empty,
    run_module,
)  # mounted beside it
from torch import Tensor, nn

from .import_stubs import DoNothing, install_import_stubs
from .messages import ProtocolError, from_source_class
from .wire import Channel


def serve(channel: Channel, expose_course: bool) -> None:
    """Answer requests until the other end closes the connection."""
    notebook = RunningNotebook(channel, expose_course)
    channel.send({"ready": True})
    while True:
        message = channel.receive()
        try:
            answer = getattr(notebook, f"do_{message['do']}")(**message["with"])
        except BaseException as error:  # SystemExit and KeyboardInterrupt end nothing here
            answer = {"raised": describe_error(error, _is_own)}
        try:
            channel.send(answer)
        except BaseException as error:  # a student's own types may raise anything while they are encoded
            reason = error if isinstance(error, ProtocolError) else type(error).__name__
            channel.send({"raised": {"kind": "ValueError", "message": f"the result can't be sent: {reason}"}})


FromSource = from_source_class()
FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


class RunningNotebook:
    """The names that a notebook's cells define, and the requests that can be made of them."""

    def __init__(self, channel: Channel, expose_course: bool) -> None:
        self.channel, self.expose_course = channel, expose_course
        self.main = ModuleType("__main__")
        self.modules: list[nn.Module] = []

    def do_load(self, cells: list[tuple[int, str]], names: list[str], provided: dict[str, str]) -> dict[str, Any]:
        """Run the cells. Report when each begins and the error that stopped it; then what each name refers to."""
        install_import_stubs(provided, self.expose_course)
        sys.modules["__main__"] = self.main
        torch.compile = _uncompiled
        namespace = self.main.__dict__
        namespace["display"] = namespace["get_ipython"] = DoNothing()  # a notebook has these, Python does not
        used: set[str] = set()  # the names that the cells so far look up
        futures = 0  # as in Jupyter, a cell's `from __future__ import` holds for the cells below, and ours does not
        for number, source in cells:
            self.channel.send({"cell": number})
            file = f"cell {number}"
            linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
            try:
                code = compile(source, file, "exec", futures, dont_inherit=True)
                futures |= code.co_flags & FUTURES
                before = {*namespace}
                exec(code, namespace)
                _keep_builtins(namespace, used - before)
                used |= _names(code)
            except BaseException as error:
                self.channel.send({"cell": number, "raised": describe_error(error, _is_own)})
        return {"loaded": {name: _kind(namespace[name]) for name in names if name in namespace}}

    def do_call(self, name: str, arguments: list[Any], seed: int) -> dict[str, Any]:
        """Call a function. Report its result, and the indices of the arguments that it changed."""
        built = [argument.build() if isinstance(argument, FromSource) else argument for argument in arguments]
        result, changed = call_function(self.main.__dict__[name], built, seed)
        return {"result": result, "changed": changed}

    def do_backward(self, name: str, arguments: list[Any], cotangents: list[Tensor], seed: int) -> dict[str, Any]:
        """Call a function and send gradients back. Report those of its arguments, or why PyTorch stopped."""
        return call_backward(self.main.__dict__[name], arguments, cotangents, seed)

    def do_build(self, name: str, sizes: tuple[int, ...], seed: int) -> dict[str, Any]:
        """Construct a class. Report the parameters of the module."""
        module, described = build_described(self.main.__dict__[name], sizes, seed)
        if not isinstance(module, nn.Module):
            return {"no_module": type(module).__name__}
        self.modules.append(module)
        return {"built": len(self.modules) - 1, **described}

    def do_run(
        self, module: int, weights: dict[str, Tensor], inputs: list[Any], options: dict[str, Any]
    ) -> dict[str, Any]:
        """Load weights into a module and run it. Report its output, the inputs that it changed, and the gradients."""
        return run_module(self.modules[module], weights, inputs, **options)

    def do_diagnose(self, name: str, sizes: tuple[int, ...], x: Tensor, options: dict[str, Any]) -> dict[str, Any]:
        """Diagnose a class, only if the course is exposed; the report names a mistake and is not a mark."""
        from course_lib.diagnosis import diagnose

        report = diagnose(build_module(self.main.__dict__[name], sizes, 1).eval(), x, **options)
        return {"findings": [finding.as_dict() for finding in report.findings[:3]]}

    def do_ask_about(self, name: str, arguments: list[Any], seed: int) -> dict[str, Any]:
        """Find questions about an answer, only if the course is exposed; they are for the teacher and no mark."""
        from course_lib.oral import oral_questions

        built = [argument.build() if isinstance(argument, FromSource) else argument for argument in arguments]
        asked = oral_questions(self.main.__dict__[name], built, seed=seed)
        return {"asked": [list(question) for question in asked]}


def _uncompiled(model: Any = None, **_: Any) -> Any:
    """Stand in for `torch.compile`, which needs a compiler, files and minutes, and changes no result."""
    return (lambda function: function) if model is None else model


def _names(code: CodeType) -> set[str]:
    """Return the names that code and the functions in it look up."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return set(code.co_names).union(*inner)


def _keep_builtins(namespace: dict[str, Any], used: set[str]) -> None:
    """Leave Python's `sum` and so on to the cells that use them, where a later `from torch import *` replaced them.

    In a notebook their answers were checked before that; in grading they are called when all cells have run.
    """
    for name in used & vars(builtins).keys() & namespace.keys():
        if namespace[name] is getattr(torch, name, None):
            del namespace[name]


def _is_own(file: str) -> bool:
    return file.startswith("cell ")


def _kind(answer: Any) -> str:
    with contextlib.suppress(Exception):  # a student's metaclass may raise whatever it likes
        if is_empty(answer):
            return "ellipsis"
    if inspect.isclass(answer):
        return "class"
    if isinstance(answer, nn.Module):
        return "instance"
    return "function" if callable(answer) else type(answer).__name__[:100]
