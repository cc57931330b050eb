"""Recognise what was handed out and not written: below an answer, it would take the answer's place."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from contextlib import suppress

from course_lib.exercises import gradable

from .plain_python import definitions, parse, plain_python

_UNWRITTEN = {"raise NotImplementedError", "raise NotImplementedError()", "super().__init__()", "pass", "..."}


def is_stub(name: str, statement: ast.stmt) -> bool:
    """Return whether a definition of an exercise's answer is as it was handed out, but for comments."""
    with suppress(RecursionError):
        stub = parse(gradable()[name].stub)
        if stub and ast.unparse(stub) == ast.unparse(statement):
            return True
        return isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and _is_unwritten(statement)
    return False


def _is_unwritten(statement: ast.stmt) -> bool:
    match statement:
        case ast.FunctionDef(body=body) | ast.ClassDef(body=body):
            return all(map(_is_unwritten, body))
        case ast.Expr(value=ast.Constant()):
            return True
    return ast.unparse(statement) in _UNWRITTEN


def without_stubs_below(sources: Iterable[str]) -> list[str]:
    """Blank the lines of each stub that stands below a written answer to its exercise, in the cells' sources."""
    written: set[str] = set()
    kept = []
    for source in sources:
        lines = source.split("\n")
        for name, statement in definitions(plain_python(source)[0]) if any(map(source.count, gradable())) else ():
            if name in written and is_stub(name, statement):
                decorators = getattr(statement, "decorator_list", [])
                first = min(node.lineno for node in (statement, *decorators)) - 1
                last = statement.end_lineno or statement.lineno
                lines[first:last] = [""] * (last - first)
            elif name in gradable() and not is_stub(name, statement):
                written.add(name)
        kept.append("\n".join(lines))
    return kept
