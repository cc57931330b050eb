"""Find the assignments, returns and lines of a function or class."""

import ast
import re
from collections.abc import Iterable, Iterator, Set
from functools import lru_cache
from typing import NamedTuple

from course_lib.tracing import Operation, Source, SourceLine, source_of

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


class Assignment(NamedTuple):
    """A statement that assigns.

    Attributes:
        node: the statement.
        line, end_line: of the statement.
        targets: what it assigns to, as written: "mask", "self.mask".
        names: every identifier on its left, as the `mask` and the `i` of `mask[i] = 1`.
        value: what it assigns, as written.
    """

    node: ast.Assign | ast.AnnAssign | ast.AugAssign
    line: int
    end_line: int
    targets: frozenset[str]
    names: frozenset[str]
    value: str


def nodes_in(source: Source | None) -> tuple[ast.AST, ...]:
    """Return the nodes of a syntax tree; none if the source is unavailable."""
    return () if source is None else walked(source.tree)


@lru_cache(maxsize=256)  # the same functions are asked for other attributes, many times in a diagnosis
def walked(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return a node and those within it, as `ast.walk` yields them."""
    return tuple(ast.walk(tree))


def assignments(source: Source | None) -> Iterator[Assignment]:
    """Yield the statements of a function or class that assign."""
    for node in nodes_in(source):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            left = node.targets if isinstance(node, ast.Assign) else [node.target]
            found = [one for target in left for one in ast.walk(target) if isinstance(one, (ast.Name, ast.Attribute))]
            targets = frozenset(ast.unparse(one) for one in found if isinstance(one.ctx, ast.Store))
            names = frozenset(one.id for one in found if isinstance(one, ast.Name))
            value = "" if node.value is None else ast.unparse(node.value)
            yield Assignment(node, node.lineno, node.end_lineno or node.lineno, targets, names, value)


def assignments_above(operation: Operation) -> list[Assignment]:
    """Return the assignments above an operation's statement, in its function, to names in that statement."""
    line, names = operation.statement.line, names_in(operation.statement.source)
    found = [one for one in assignments(function_of(operation)) if one.end_line < line and one.names & names]
    return [one for one in found if isinstance(one.node, ast.Assign)]


def is_in_other_branch(source: Source | None, line: int, other: int) -> bool:
    """Return whether two lines of a function are in the two branches of an `if`, only one of which runs."""
    for node in nodes_in(source):
        if isinstance(node, ast.If) and node.orelse:
            inside = [one in range(node.orelse[0].lineno, (node.end_lineno or 0) + 1) for one in (line, other)]
            around = [one in range(node.lineno, (node.end_lineno or 0) + 1) for one in (line, other)]
            if all(around) and inside[0] != inside[1]:
                return True
    return False


def is_skipped(source: Source | None, line: int, ran: Set[int]) -> bool:
    """Return whether a line is in the block of an `if` that makes tensors and ran no operation.

    Args:
        source: of a function.
        line: of a statement in it.
        ran: the lines of its statements that ran an operation.
    """
    for node in nodes_in(source):
        if isinstance(node, ast.If):
            block = range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
            if line in block and ran.isdisjoint(block) and any("torch." in ast.unparse(one) for one in node.body):
                return True
    return False


def returns_in(source: Source | None) -> list[ast.Return]:
    """Return the `return` statements of a function, in order."""
    return sorted((node for node in nodes_in(source) if isinstance(node, ast.Return)), key=lambda node: node.lineno)


def returns_below(operation: Operation) -> list[ast.Return]:
    """Return the `return` statements below an operation, in its function."""
    return [node for node in returns_in(function_of(operation)) if node.lineno > operation.statement.line]


def last_line_of(source: Source | None, lines: Iterable[int]) -> SourceLine | None:
    """Return the last of some lines of a source, or None if there are none."""
    last = max(lines, default=None)
    return None if last is None or source is None else SourceLine(source.file, last)


def names_in(code: str) -> set[str]:
    """Return the identifiers in a piece of code."""
    return set(IDENTIFIER.findall(code))


def function_of(operation: Operation) -> Source | None:
    """Return the source of the innermost function that an operation ran in, or None if it is unavailable."""
    return source_of(operation.code)


def forward_of(operation: Operation) -> Source | None:
    """Return the source of the outermost function that an operation ran in, or None if it is unavailable."""
    return source_of(operation.frames[-1][0]) if operation.frames else None
