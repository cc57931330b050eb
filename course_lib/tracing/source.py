"""The source text of running code, parsed once per file."""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property, lru_cache
from types import CodeType
from typing import NamedTuple

Position = tuple[int, int]  # line from 1, byte from 0, as ast counts them
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Definition = Function | ast.ClassDef


class Source(NamedTuple):
    """The syntax tree of a function or class, and the name of its file."""

    tree: Definition
    file: str


class Block:
    """Outermost statements that begin on each other's lines, mostly a single one: a class, a function.

    What is asked of a file is found in the block that holds it, because most of a long file is never asked for.
    """

    def __init__(self, first: int, text: list[str]) -> None:
        self.first, self.last, self.statements = first, first, list[ast.stmt]()
        self._text = text

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """The functions, lambdas and classes."""
        return tuple(node for outer in self.statements for node in ast.walk(outer) if isinstance(node, Definition))

    @cached_property
    def by_end(self) -> dict[Position, list[tuple[ast.expr | ast.stmt, ast.stmt]]]:
        """Position -> the expressions that end there, each with its statement; the outer ones first."""
        found: dict[Position, list[tuple[ast.expr | ast.stmt, ast.stmt]]] = {}
        for statement in _statements_in(self.statements):
            whole = [statement] if isinstance(statement, ast.AugAssign) else []  # `scores += bias` is one call
            for node in (*whole, *own_expressions(statement)):
                found.setdefault(end_of(node), []).append((node, statement))
        return found

    @cached_property
    def without_comments(self) -> list[bytes]:
        """Its lines."""
        text = self._text[self.first - 1 : self.last]
        lines = [line.encode() for line in text]
        for token in tokenize.generate_tokens(iter(text).__next__):
            if token.type == tokenize.COMMENT:
                line, column = token.start
                lines[line - 1] = token.line[:column].encode() + b"\n"
        return lines


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
        return tuple(_statements_in(self.tree.body))

    @cached_property
    def _blocks(self) -> list[Block]:
        found = [Block(0, self.lines)]  # of the lines above the first statement
        for statement in self.tree.body:
            first = _first_line(statement)
            if first > found[-1].last:
                found.append(Block(first, self.lines))
            found[-1].statements.append(statement)
            found[-1].last = end_of(statement)[0]
        return found

    def block_at(self, line: int) -> Block:
        """Return the block that a line is in, or else the one above it."""
        return self._blocks[bisect_right(self._blocks, line, key=lambda block: block.first) - 1]

    def between(self, start: Position, end: Position) -> str:
        """Return the text from one position to another within a block, without comments."""
        block = self.block_at(start[0])
        lines = block.without_comments[start[0] - block.first : end[0] - block.first + 1]
        if len(lines) == 1:
            return lines[0][start[1] : end[1]].decode()
        return b"".join([lines[0][start[1] :], *lines[1:-1], lines[-1][: end[1]]]).decode()


def _statements_in(outer: list[ast.stmt]) -> Iterator[ast.stmt]:
    return (node for statement in outer for node in ast.walk(statement) if isinstance(node, ast.stmt))


def read_source(file: str) -> SourceText:
    """Return the text of a file or notebook cell from linecache, or an empty text if there is none."""
    return _parsed("".join(linecache.getlines(file)))


_parsed = lru_cache(maxsize=64)(SourceText)


def source_of(thing: CodeType | type | None) -> Source | None:
    """Return the definition of a code object or a class, or None if its source is not available."""
    code = thing if thing is None or isinstance(thing, CodeType) else _code_of_a_method(thing)
    if code is None:
        return None
    kind = Function if thing is code else ast.ClassDef
    around = [
        node
        for node in read_source(code.co_filename).block_at(code.co_firstlineno).definitions
        if isinstance(node, kind)
        and (thing is not code or getattr(node, "name", "<lambda>") == code.co_name)
        and _first_line(node) <= code.co_firstlineno <= end_of(node)[0]
    ]
    return Source(max(around, key=_first_line), code.co_filename) if around else None


def _code_of_a_method(cls: type) -> CodeType | None:
    """Return the code of one of the functions that a class defines, which knows the file."""
    functions = (inspect.unwrap(value) for value in vars(cls).values() if inspect.isfunction(value))
    return next((one.__code__ for one in functions if one.__qualname__.startswith(cls.__qualname__)), None)


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
