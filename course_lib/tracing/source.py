"""The source text of running code, parsed once per file."""

import ast
import inspect
import io
import linecache
import re
import sys
import textwrap
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from types import CodeType, FunctionType
from typing import NamedTuple

Position = tuple[int, int]  # line from 1, byte from 0, as ast counts them
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = Function | ast.ClassDef
STRING_OR_COMMENT = re.compile(
    r"""(?P<string>(?P<quotes>"{3}|'{3}|"|')(?:\\.|[^\\])*?(?P=quotes))|#[^\n]*""", re.DOTALL
)


class Source(NamedTuple):
    """The syntax tree of a function or class, and the name of its file."""

    tree: Definition
    file: str


class SourceText:
    """The text of one file or notebook cell, and its syntax tree, which is empty if the text is not Python."""

    def __init__(self, text: str) -> None:
        self.lines = list(io.StringIO(text))  # str.splitlines cuts at form feeds as well
        try:
            self.tree = ast.parse(text)
        except SyntaxError:
            self.tree = ast.Module([], [])

    @cached_property
    def statements(self) -> tuple[ast.stmt, ...]:
        """Every statement, also those within others."""
        return tuple(_statements_in(self.tree))

    def outermost_at(self, line: int, column: int = sys.maxsize) -> ast.stmt:
        """Return the outermost statement at or before a position; an empty one above the first.

        What is asked of a file is looked for in there, because most of a long file is never asked for.
        """
        number = bisect_right(self.tree.body, (line, column), key=lambda node: (_first_line(node), node.col_offset))
        return self.tree.body[number - 1] if number else ast.Pass()

    def between(self, start: Position, end: Position) -> str:
        """Return the text from one position to another, neither of them in a string, without comments."""
        lines = [line.encode() for line in self.lines[start[0] - 1 : end[0]]]
        lines[-1] = lines[-1][: end[1]]
        lines[0] = lines[0][start[1] :]
        return STRING_OR_COMMENT.sub(lambda match: match["string"] or "", b"".join(lines).decode())


@lru_cache(maxsize=1024)
def definitions_in(outermost: ast.stmt) -> tuple[Definition, ...]:
    """Return the functions, lambdas and classes."""
    return tuple(node for node in ast.walk(outermost) if isinstance(node, Definition))


@lru_cache(maxsize=1024)
def by_end(outermost: ast.stmt) -> dict[Position, list[tuple[ast.expr | ast.stmt, ast.stmt]]]:
    """Return for each position the expressions that end there, each with its statement; the outer ones first."""
    by_position: dict[Position, list[tuple[ast.expr | ast.stmt, ast.stmt]]] = {}
    for statement in _statements_in(outermost):
        whole = [statement] if isinstance(statement, ast.AugAssign) else []  # `scores += bias` is one call
        for node in (*whole, *own_expressions(statement)):
            by_position.setdefault(end_of(node), []).append((node, statement))
    return by_position


def _statements_in(outer: ast.AST) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(outer) if isinstance(node, ast.stmt))


def read_source(file: str) -> SourceText:
    """Return the text of a file or notebook cell from linecache, or an empty text if there is none."""
    return _parsed("".join(linecache.getlines(file)))


_parsed = lru_cache(maxsize=64)(SourceText)


def source_of(definition: CodeType | type | None) -> Source | None:
    """Return the definition of a code object or a class, or None if its source is not available."""
    code = definition if definition is None or isinstance(definition, CodeType) else _code_of_a_method(definition)
    if code is None:
        return None
    kind = Function if definition is code else ast.ClassDef
    around = [
        node
        for node in definitions_in(read_source(code.co_filename).outermost_at(code.co_firstlineno))
        if isinstance(node, kind)
        and (definition is not code or getattr(node, "name", "<lambda>") == code.co_name)
        and _first_line(node) <= code.co_firstlineno <= end_of(node)[0]
    ]
    return Source(max(around, key=_first_line), code.co_filename) if around else None


def text_of(definition: FunctionType | type) -> str | None:
    """Return the text of a function or class, from a notebook's cell as well; None if it is not available."""
    found = source_of(inspect.unwrap(definition).__code__ if isinstance(definition, FunctionType) else definition)
    if found is None or isinstance(found.tree, ast.Lambda):
        return None
    lines = read_source(found.file).lines[_first_line(found.tree) - 1 : end_of(found.tree)[0]]
    return textwrap.dedent("".join(lines)).rstrip("\n")


def _code_of_a_method(cls: type) -> CodeType | None:
    """Return the code of some method of a class, which knows the file."""
    methods = (inspect.unwrap(value) for value in vars(cls).values() if inspect.isfunction(value))
    return next((method.__code__ for method in methods if method.__qualname__.startswith(cls.__qualname__)), None)


def _first_line(node: ast.stmt | Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def start_of(node: ast.expr | ast.stmt) -> Position:
    """Return where a node begins."""
    return node.lineno, node.col_offset


def end_of(node: ast.expr | ast.stmt) -> Position:
    """Return where a node ends."""
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, without those of the statements in its block."""
    waiting = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr):
            yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
