"""Lines to blame that no operation ran on: where an attribute was set, what was returned, which loop it stands in."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from course_lib.recorder.source import CELL, Place, where_of
from course_lib.recorder.watcher import FOREIGN

if TYPE_CHECKING:
    from .trace import Operation

OURS = (*FOREIGN, str(Path(__file__).parent))  # files whose lines are PyTorch's or the doctor's


class Line(str):
    """A place in few letters, "file.py:12" or "cell:3", that still knows its text.

    Attributes:
        text: what is written there, without the blanks before it.
        file, line: as Python knows them; lines count from 1.
    """

    text: str
    file: str
    line: int

    def __new__(cls, file: str, number: int) -> Line:
        made = super().__new__(cls, where_of(file, number))
        made.text = linecache.getline(file, number).strip()
        made.file, made.line = file, number
        return made

    @property
    def path(self) -> str | None:
        """The file, from the current folder if it lies there; None for a notebook's cell and other text in memory."""
        path = Path(self.file)
        if not path.is_file() or CELL.search(self.file):
            return None
        path = path.resolve()
        return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)

    @property
    def column(self) -> int | None:
        """Where the text begins, counted from 1."""
        return linecache.getline(self.file, self.line).find(self.text) + 1 if self.text else None

    @property
    def end_line(self) -> int | None:
        """The last line of the statement that the line belongs to; of a block's first line, the line itself."""
        try:
            tree = ast.parse("".join(linecache.getlines(self.file)))
        except SyntaxError:
            return None
        around = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.stmt) and node.lineno <= self.line <= node.end_lineno
        ]
        inner = max(around, key=lambda node: node.lineno, default=None)
        return None if inner is None else self.line if hasattr(inner, "body") else inner.end_lineno


def line_at(place: Place) -> Line | None:
    """The line of a place, or None where it has none."""
    return Line(place.file, place.line) if place.where else None


def last_line(error: BaseException, foreign: tuple[str, ...]) -> Line | None:
    """The innermost line that an error passed and that stands in none of the foreign files."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.lineno and not frame.filename.startswith(foreign):
            return Line(frame.filename, frame.lineno)
    return None


class Source(NamedTuple):
    """A class or function as parsed text."""

    tree: ast.AST
    file: str

    def where(self, number: int) -> Line:
        return Line(self.file, number)


def source_of(thing: Any) -> Source | None:
    """The text of a code object or a class, in a file or in a notebook's cell, or None where it can't be had."""
    code = thing if isinstance(thing, CodeType) else _some_code(thing)
    if code is None:
        return None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda) if thing is code else (ast.ClassDef,)
    around = [
        node
        for node in _definitions("".join(linecache.getlines(code.co_filename)))
        if isinstance(node, kinds)
        and _first_line(node) <= code.co_firstlineno <= node.end_lineno
        and (thing is not code or getattr(node, "name", "<lambda>") == code.co_name)
    ]
    return Source(max(around, key=_first_line), code.co_filename) if around else None


@lru_cache(maxsize=16)
def _definitions(text: str) -> tuple[ast.AST, ...]:
    """The functions and classes of a file, which is asked for many lines and walked once."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    try:
        return tuple(node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))
    except SyntaxError:
        return ()


def _some_code(cls: Any) -> CodeType | None:
    """The code of one of a class's own functions, which knows the file."""
    functions = (inspect.unwrap(one) for one in vars(cls).values() if inspect.isfunction(one))
    return next((one.__code__ for one in functions if one.__qualname__.startswith(cls.__qualname__)), None)


def _first_line(node: ast.AST) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])


# -- attributes --


def of_attribute(code: Callable[..., Any], name: str, inside: str = "") -> Line | None:
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


def mask_attribute(code: Callable[..., Any], name: str) -> Line | None:
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


def attribute_line(operation: Operation, code: Callable[..., Any], wanted: Callable[[Any], bool]) -> Line | None:
    """Where an attribute was set that an operation's statement reads and that is of a wanted kind."""
    for name, value in attributes_read(operation, code):
        if wanted(value):
            return of_attribute(code, name)
    return None


def softmax_in(code: Callable[..., Any], operation: Operation) -> Line | None:
    """Where the nn.Softmax was made that an operation's statement calls."""
    return attribute_line(operation, code, lambda value: isinstance(value, nn.Softmax))


def mask_in(code: Callable[..., Any], operation: Operation) -> Line | None:
    """Where the triangle of the buffer was made that an operation's statement reads, itself or by a variable."""
    texts = [operation.place.source, *_assigned_above(operation)]
    for name in dict.fromkeys(re.findall(r"self\.(\w+)", " ".join(texts))):
        for module in code.modules() if isinstance(code, nn.Module) else ():
            value = getattr(module, name, None)
            if isinstance(value, torch.Tensor) and value.dim() >= 2 and not isinstance(value, nn.Parameter):
                return mask_attribute(code, name)
    return None


def _assigned_above(operation: Operation) -> list[str]:
    """What the variables of an operation's statement were set to, further up in its function."""
    source = source_of(operation.code)
    names = set(re.findall(r"[A-Za-z_]\w*", operation.place.source))
    return [
        ast.unparse(node.value)
        for node in (ast.walk(source.tree) if source is not None else ())
        if isinstance(node, ast.Assign) and node.lineno < operation.place.line and _targets(node) & names
    ]


# -- statements --


def of_local(operation: Operation, pattern: str) -> Line | None:
    """The last line above an operation, in its function, that assigns a name of the statement and fits a pattern."""
    source = source_of(operation.code)
    if source is None:
        return None
    names = set(re.findall(r"[A-Za-z_]\w*", operation.place.source))
    before = [
        node.lineno
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign)
        and node.end_lineno < operation.place.line
        and _targets(node) & names
        and re.search(pattern, ast.unparse(node.value))
    ]
    return source.where(max(before)) if before else None


def _targets(node: ast.Assign) -> set[str]:
    return {one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def first_reading(
    operation: Operation, place: Place, wanted: Callable[[str], bool], but: set[str | None]
) -> Line | None:
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
        and node.lineno > place.line
        and wanted(node.id)
    ]
    return next((source.where(line) for line in sorted(lines) if source.where(line) not in but), None)


def of_return(operation: Operation) -> Line | None:
    """The last `return` of the patient's forward, in which an operation ran; its last line where there is none."""
    source = source_of(operation.frames[-1][0]) if operation.frames else None
    body = getattr(source.tree, "body", None) if source is not None else None
    if not isinstance(body, list):
        return line_at(operation.outermost)
    returns = [node.lineno for node in ast.walk(source.tree) if isinstance(node, ast.Return)]
    return source.where(max(returns) if returns else body[-1].lineno)


def of_missing_return(operation: Operation) -> Line | None:
    """Where code should have returned: a `return` in a branch, or the last line of a function that has none."""
    for code, _ in reversed(operation.frames):  # from forward inwards: a helper may be the one that forgets
        source = source_of(code)
        body = getattr(source.tree, "body", None) if source is not None else None
        if not isinstance(body, list) or isinstance(body[-1], ast.Return):
            continue
        returns = [node.lineno for node in ast.walk(source.tree) if isinstance(node, ast.Return)]
        return source.where(returns[-1] if returns else body[-1].lineno)
    return line_at(operation.outermost)


def of_loop(where: str | None, operation: Operation) -> Line | None:
    """The loop over a fixed number of things in which a line stands, or None."""
    source = source_of(operation.frames[-1][0]) if operation.frames else None
    if source is None or where is None:
        return None
    line = int(where.rsplit(":", 1)[1])
    for node in ast.walk(source.tree):
        if isinstance(node, ast.For) and node.lineno < line <= node.end_lineno:
            words = ast.unparse(node.iter)
            if words.startswith("range(") and not re.search(r"shape|size\(|len\(", words):
                return source.where(node.lineno)
    return None


# -- what a cache writes and hands on --

PLACES = {"index_copy_": 1, "index_copy": 1, "scatter_": 1, "scatter": 1, "index_put_": 0, "slice_scatter": 2}


def of_place(operation: Operation) -> Line | None:
    """Where the place was set at which a statement writes: the last line of its function that gives it a value."""
    source = source_of(operation.code)
    if source is None:
        return None
    for expression in _places(source.tree, operation.place.line):
        above = operation.place.line if isinstance(expression, ast.Name) else None
        lines = [
            node.lineno
            for node in ast.walk(source.tree)
            if isinstance(node, (ast.Assign, ast.AugAssign))
            and (above is None or node.end_lineno < above)
            and _gives_value(node, ast.unparse(expression))
        ]
        if lines:
            return source.where(max(lines))
    return None


def _places(tree: ast.AST, line: int) -> Iterator[ast.expr]:
    """The names by which the statement in a line says where it writes."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.Expr)) or not node.lineno <= line <= node.end_lineno:
            continue
        found: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            for target in (one for one in node.targets if isinstance(one, ast.Subscript)):
                index = target.slice
                found += index.elts if isinstance(index, ast.Tuple) else [index]
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in PLACES:
            found += call.args[PLACES[call.func.attr] :][:1]
        for one in found:
            begin = one.lower if isinstance(one, ast.Slice) else one
            if isinstance(begin, (ast.Name, ast.Attribute)):
                yield begin


def _gives_value(node: ast.Assign | ast.AugAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(
        isinstance(one, (ast.Name, ast.Attribute)) and isinstance(one.ctx, ast.Store) and ast.unparse(one) == name
        for target in targets
        for one in ast.walk(target)
    )


def of_return_below(operation: Operation) -> Line | None:
    """The first `return` below an operation, in its own function."""
    source = source_of(operation.code)
    lines = _returns(source, operation)
    return source.where(lines[0].lineno) if lines else None


def of_handed_on(operation: Operation) -> Line | None:
    """Where what the function of an operation hands on beside its output was set: its last part, or the `return`."""
    source = source_of(operation.code)
    for node in _returns(source, operation)[-1:]:
        if not isinstance(node.value, ast.Tuple):
            return None
        last = node.value.elts[-1]
        lines = [
            one.lineno
            for one in ast.walk(source.tree)
            if isinstance(last, ast.Name) and isinstance(one, ast.Assign) and _gives_value(one, last.id)
        ]
        return source.where(max(lines, default=node.lineno))
    return None


def _returns(source: Source | None, operation: Operation) -> list[ast.Return]:
    found = [node for node in ast.walk(source.tree) if isinstance(node, ast.Return)] if source is not None else []
    return sorted((node for node in found if node.lineno > operation.place.line), key=lambda node: node.lineno)
