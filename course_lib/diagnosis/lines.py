"""Lines to blame that no operation ran on: where an attribute was set, where a variable got its value, what was returned."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from course_lib.recorder.source import where_of

from .trace import Operation


def of_attribute(code: Callable[..., Any], name: str) -> str | None:
    """Where a class of the patient sets `self.name`, or registers it as a buffer or parameter."""
    pattern = re.compile(rf"self\.{name}\b[^=\n]*=[^=]|register_(?:buffer|parameter)\(\s*[\"']{name}[\"']")
    for cls in _classes(code):
        try:
            lines, first = inspect.getsourcelines(cls)
            file = inspect.getsourcefile(cls) or ""
        except (OSError, TypeError):
            continue
        for at, line in enumerate(lines):
            if pattern.search(line):
                return where_of(file, first + at)
    return None


def _classes(code: Any) -> list[type]:
    if not isinstance(code, nn.Module):
        return []
    found: dict[type, None] = {}
    for module in code.modules():
        for cls in type(module).__mro__:
            if cls.__module__.split(".")[0] != "torch" and issubclass(cls, nn.Module):
                found[cls] = None
    return list(found)


def of_names_in(operation: Operation, code: Callable[..., Any], wanted: Callable[[Any], bool]) -> str | None:
    """Where something that an operation's statement reads got its value: `self.scale` in __init__, `scale` above.

    Args:
        operation: whose statement is read.
        code: the patient.
        wanted: whether the value of an attribute is the kind of thing that is looked for.

    Returns:
        "file.py:12", or None where the statement says it all itself.
    """
    source = operation.place.source
    for name in re.findall(r"self\.(\w+)", source):
        for module in code.modules() if isinstance(code, nn.Module) else ():
            if hasattr(module, name) and wanted(getattr(module, name)):
                place = of_attribute(code, name)
                if place is not None:
                    return place
    return None


def of_local(operation: Operation, pattern: str) -> str | None:
    """The last line above an operation, in its function, that assigns a name of the statement and fits a pattern."""
    tree, file, offset = _function(operation)
    if tree is None:
        return None
    names = set(re.findall(r"[A-Za-z_]\w*", operation.place.source))
    line = operation.place.line
    best = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.end_lineno + offset < line:
            targets = {n.id for target in node.targets for n in ast.walk(target) if isinstance(n, ast.Name)}
            if targets & names and re.search(pattern, ast.unparse(node.value)):
                best = max(best or 0, node.lineno + offset)
    return None if best is None else where_of(file, best)


def of_return(operation: Operation) -> str | None:
    """The last `return` of the function in which an operation ran, or its last line."""
    tree, file, offset = _function(operation)
    if tree is None:
        return None
    returns = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Return)]
    return where_of(file, (max(returns) if returns else tree.body[0].body[-1].lineno) + offset)


def _function(operation: Operation) -> tuple[ast.Module | None, str, int]:
    if operation.code is None:
        return None, "", 0
    try:
        lines, first = inspect.getsourcelines(operation.code)
        source = inspect.cleandoc("\n" + "".join(lines)) if lines[0][:1].isspace() else "".join(lines)
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None, "", 0
    if not tree.body or not hasattr(tree.body[0], "body") or isinstance(tree.body[0].body, ast.expr):
        return None, "", 0
    return tree, operation.code.co_filename, max(first, 1) - 1


def softmax_in(code: Callable[..., Any], operation: Operation) -> str | None:
    """Where the nn.Softmax was made that an operation's statement calls."""
    return of_names_in(operation, code, lambda value: isinstance(value, nn.Softmax))


def number_in(code: Callable[..., Any], operation: Operation) -> str | None:
    """Where the number was set that an operation's statement scales with."""
    found = of_names_in(
        operation, code, lambda v: isinstance(v, float) or (isinstance(v, torch.Tensor) and v.dim() == 0)
    )
    return found or of_local(operation, r"sqrt|\*\*|rsqrt|1\.?0? ?/|/ ?\d|scale|dim|size|shape")


def mask_in(code: Callable[..., Any], operation: Operation) -> str | None:
    """Where the buffer was registered, or the variable set, that an operation masks with."""
    return of_names_in(
        operation, code, lambda v: isinstance(v, torch.Tensor) and v.dim() >= 2 and not isinstance(v, nn.Parameter)
    )
