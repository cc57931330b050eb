"""Lines to blame that no operation ran on: where an attribute was set, what was returned, which loop it stands in."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import nn

from course_lib.recorder.source import Place, where_of

from .trace import Operation


class Source(NamedTuple):
    """A function's parsed text; `offset` is what is added to its line numbers."""

    tree: ast.AST
    file: str
    offset: int

    def where(self, line: int) -> str:
        return where_of(self.file, line + self.offset)


def source_of(code: Any) -> Source | None:
    """The text of a code object, a function or a class, or None where it can't be had."""
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(inspect.cleandoc("\n" + "".join(lines)) if lines[0][:1].isspace() else "".join(lines))
    except (OSError, TypeError, SyntaxError):
        return None
    file = inspect.getsourcefile(code) or getattr(code, "co_filename", "")
    return Source(tree, file, max(first, 1) - 1)


# -- attributes --


def of_attribute(code: Callable[..., Any], name: str, inside: str = "") -> str | None:
    """Where a class of the patient sets `self.name`, or registers it as a buffer or parameter.

    Args:
        code: the patient.
        name: of the attribute.
        inside: a word, such as "Linear"; if the statement has several lines, the one with this word is meant.
    """
    for cls in _classes(code):
        source = source_of(cls)
        for node in ast.walk(source.tree) if source is not None else ():
            if isinstance(node, ast.stmt) and _sets(node, name):
                return source.where(_line_with(node, inside))
    return None


def mask_attribute(code: Callable[..., Any], name: str) -> str | None:
    """Where the triangle was made that was registered under a name."""
    for cls in _classes(code):
        source = source_of(cls)
        for function in ast.walk(source.tree) if source is not None else ():
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)) or not _sets(node, name):
                    continue
                names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
                made = [
                    one.lineno
                    for one in ast.walk(function)
                    if isinstance(one, ast.Assign)
                    and one.lineno < node.lineno
                    and _targets(one) & names
                    and re.search(r"tri[ul]|ones|zeros|full|arange", ast.unparse(one.value))
                ]
                return source.where(max(made, default=node.lineno))
    return None


def _sets(node: ast.stmt, name: str) -> bool:
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(
            isinstance(one, ast.Attribute) and one.attr == name and isinstance(one.value, ast.Name)
            for target in targets
            for one in ast.walk(target)
        )
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.value.args:
        called, first = node.value.func, node.value.args[0]
        registers = isinstance(called, ast.Attribute) and called.attr in ("register_buffer", "register_parameter")
        return registers and isinstance(first, ast.Constant) and first.value == name
    return False


def _line_with(node: ast.stmt, word: str) -> int:
    if word:
        for one in ast.walk(node):
            if isinstance(one, (ast.Name, ast.Attribute)) and word in ast.unparse(one).rsplit(".", 1)[-1]:
                return one.lineno
    return node.lineno


def _classes(code: Any) -> list[type]:
    found: dict[type, None] = {}
    for module in code.modules() if isinstance(code, nn.Module) else ():
        for cls in type(module).__mro__:
            if cls.__module__.split(".")[0] != "torch" and issubclass(cls, nn.Module):
                found[cls] = None
    return list(found)


def attributes_read(operation: Operation, code: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of the attributes that an operation's statement reads from `self`."""
    for name in re.findall(r"self\.(\w+)", operation.place.source):
        for module in code.modules() if isinstance(code, nn.Module) else ():
            if hasattr(module, name):
                yield name, getattr(module, name)
                break


def attribute_line(operation: Operation, code: Callable[..., Any], wanted: Callable[[Any], bool]) -> str | None:
    """Where an attribute was set that an operation's statement reads and that is of a wanted kind."""
    for name, value in attributes_read(operation, code):
        if wanted(value):
            return of_attribute(code, name)
    return None


def softmax_in(code: Callable[..., Any], operation: Operation) -> str | None:
    """Where the nn.Softmax was made that an operation's statement calls."""
    return attribute_line(operation, code, lambda value: isinstance(value, nn.Softmax))


def mask_in(code: Callable[..., Any], operation: Operation) -> str | None:
    """Where the triangle of the buffer was made that an operation's statement reads."""
    for name, value in attributes_read(operation, code):
        if isinstance(value, torch.Tensor) and value.dim() >= 2 and not isinstance(value, nn.Parameter):
            return mask_attribute(code, name)
    return None


# -- statements --


def of_local(operation: Operation, pattern: str) -> str | None:
    """The last line above an operation, in its function, that assigns a name of the statement and fits a pattern."""
    source = source_of(operation.code)
    if source is None:
        return None
    names = set(re.findall(r"[A-Za-z_]\w*", operation.place.source))
    before = [
        node.lineno
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
        and node.end_lineno + source.offset < operation.place.line
        and _targets(node) & names
        and re.search(pattern, ast.unparse(node.value))
    ]
    return source.where(max(before)) if before else None


def _targets(node: ast.Assign) -> set[str]:
    return {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def first_reading(
    operation: Operation, place: Place, wanted: Callable[[str], bool], but: set[str | None]
) -> str | None:
    """The first statement below a place, in the function of an operation, that reads a wanted name."""
    code = next((frame[0] for frame in operation.frames[::-1]), None)
    source = source_of(code)
    if source is None:
        return None
    lines = [
        node.lineno
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.lineno + source.offset > place.line
        and wanted(node.id)
    ]
    return next((source.where(line) for line in sorted(lines) if source.where(line) not in but), None)


def of_return(operation: Operation) -> str | None:
    """The last `return` of the patient's forward, in which an operation ran; its last line where there is none."""
    source = source_of(operation.frames[-1][0]) if operation.frames else None
    body = getattr(source.tree.body[0], "body", None) if source is not None else None
    if not isinstance(body, list):
        return operation.outermost.where or None
    returns = [node.lineno for node in ast.walk(source.tree) if isinstance(node, ast.Return)]
    return source.where(max(returns) if returns else body[-1].lineno)


def of_missing_return(operation: Operation) -> str | None:
    """Where a forward should have returned: a `return` that stands in a branch, or the last line that ran."""
    source = source_of(operation.frames[-1][0]) if operation.frames else None
    for node in ast.walk(source.tree) if source is not None else ():
        if isinstance(node, ast.If) and any(isinstance(one, ast.Return) for one in node.body) and not node.orelse:
            return source.where(node.lineno)
    return operation.outermost.where or None


def of_loop(where: str | None, operation: Operation | None) -> str | None:
    """The loop over a fixed number of things in which a line stands, or None."""
    source = source_of(operation.frames[-1][0]) if operation is not None and operation.frames else None
    if source is None or where is None:
        return None
    line = int(where.rsplit(":", 1)[1]) - source.offset
    for node in ast.walk(source.tree):
        if isinstance(node, ast.For) and node.lineno < line <= node.end_lineno:
            words = ast.unparse(node.iter)
            if words.startswith("range(") and not re.search(r"shape|size\(|len\(", words):
                return source.where(node.lineno)
    return None
