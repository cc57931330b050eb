"""Find the devices that code was given, by an argument of a constructor or by a variable of its file."""

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from course_lib.diagnosis.measure import Subject, settings_in

from .attributes import statements_that_set

CALLED = re.compile(r"(^|_)(device|dev)$")
NAMED = re.compile(r"(cpu|cuda|mps|xpu)(:\d+)?")


def move_given_devices(subject: Subject, code: Callable[..., Any], device: torch.device) -> None:
    """Put a device in place of each that the modules of a copy were given: their author gives them that of x.

    A device that a constructor chose by itself, as in `self.device = torch.device("cpu")`, stays. None stands for a
    device that it could have been given.
    """
    for module in code.modules() if isinstance(code, nn.Module) else ():
        for name, value in list(vars(module).items()):
            if (_is_device(value) and _is_given(subject, name)) or (value is None and _may_be_given(subject, name)):
                setattr(module, name, device)
            for settings, key in settings_in(value):
                if _is_device(settings[key]):
                    settings[key] = device


@contextmanager
def of_files_on(code: Callable[..., Any], device: torch.device) -> Iterator[None]:
    """Let variables of the code's files that are called a device, as scripts have one for all they make, be another."""
    modules = code.modules() if isinstance(code, nn.Module) else ()
    functions = [code, *(getattr(type(module), "forward", None) for module in modules)]
    spaces = {id(space): space for one in functions if (space := getattr(one, "__globals__", None)) is not None}
    named = [(space, name) for space in spaces.values() for name in space if CALLED.search(name.lower())]
    kept = [(space, name, space[name]) for space, name in named if _is_device(space[name])]
    try:
        for space, name, _ in kept:
            space[name] = device
        yield
    finally:
        for space, name, value in kept:
            space[name] = value


def is_on_given_device(subject: Subject, name: str) -> bool:
    """Return whether a kept tensor is made on, or moved to, a device that the constructor was given."""
    statements = [(source.tree, node) for source, node in statements_that_set(subject, name)]
    return bool(statements) and all(_reads_argument(tree, node, CALLED) for tree, node in statements)


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device) or (isinstance(value, str) and NAMED.fullmatch(value) is not None)


def _is_given(subject: Subject, name: str) -> bool:
    """Return whether an attribute is set from an argument; an attribute that no method is seen to set was given."""
    statements = [(source.tree, node) for source, node in statements_that_set(subject, name)]
    return all(_reads_argument(tree, node) for tree, node in statements)


def _may_be_given(subject: Subject, name: str) -> bool:
    """Return whether an attribute is called a device and set from an argument, which may be left out."""
    return bool(CALLED.search(name)) and bool(statements_that_set(subject, name)) and _is_given(subject, name)


def _reads_argument(tree: ast.AST, statement: ast.stmt, called: re.Pattern[str] = re.compile("")) -> bool:
    methods = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef) and statement in ast.walk(one)]
    every = (one.args for one in methods)
    names = {arg.arg for args in every for arg in (*args.posonlyargs, *args.args[1:], *args.kwonlyargs)}
    return any(isinstance(one, ast.Name) and one.id in names and called.search(one.id) for one in ast.walk(statement))
