"""Find assignments whose value no line can read, as a compiler warns of them."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from course_lib.tracing import Source

from .sources import nodes_in

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
BLOCKS = ("body", "orelse", "finalbody")
CHANGING = re.compile(r"^(append|extend|insert|update|set\w*|add|register\w*|put|write|copy)$|_$")
READING_ALL = {"locals", "vars", "exec", "eval"}


def dead_stores(source: Source) -> Iterator[tuple[ast.Assign, str]]:
    """Yield the assignments of a function to one plain name that is never read after it, and the name.

    The name is read nowhere but in its own assignments, or assigned anew in the same block before it is read.
    """
    reads, nodes = names_read(source), nodes_in(source)
    if isinstance(source.tree, ast.Lambda) or READING_ALL & reads:
        return
    shared = {name for one in nodes if isinstance(one, (ast.Global, ast.Nonlocal)) for name in one.names}
    changed = {one.target.id for one in nodes if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name)}
    for node, name, rest in _assignments(source.tree.body):
        meant = name in shared | changed or name.startswith("_")
        if not meant and (name not in reads or _is_overwritten(name, rest)):
            yield node, name


def dead_parts(source: Source) -> Iterator[tuple[ast.Assign, list[str], list[int]]]:
    """Yield the assignments to several names, as `a, b = ...`: the names, and which of them nothing reads."""
    reads = names_read(source)
    for node, names in named_parts(source):
        unread = [at for at, name in enumerate(names) if name not in reads and not name.startswith("_")]
        if unread and not READING_ALL & reads:
            yield node, names, unread


def named_parts(source: Source) -> Iterator[tuple[ast.Assign, list[str]]]:
    """Yield the assignments to several names, and the names; "_" for what is none."""
    for node in nodes_in(source):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            yield node, [one.id if isinstance(one, ast.Name) else "_" for one in node.targets[0].elts]


def dropped_results(source: Source) -> Iterator[ast.Expr]:
    """Yield the statements of a function that compute something and give it no name, as `scores + bias`."""
    for node in nodes_in(source):
        if isinstance(node, ast.Expr) and isinstance(node.value, (ast.BinOp, ast.UnaryOp, ast.Call)):
            yield node


def changes_nothing(source: Source) -> bool:
    """Return whether a function returns a value and writes to no attribute, item or list."""
    returns = False
    for node in nodes_in(source):
        returns |= isinstance(node, ast.Return) and node.value is not None
        stores = isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
        if stores or (isinstance(node, ast.Attribute) and CHANGING.search(node.attr)):
            return False
    return returns


@lru_cache(maxsize=256)
def names_read(source: Source) -> frozenset[str]:
    """Return the names that a function reads, other than in assignments to themselves, as in `x = x + 1`."""
    nodes = nodes_in(source)
    own: dict[str, set[ast.AST]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and (name := _only_target(node)):
            own.setdefault(name, set()).update(ast.walk(node.value))
    reads = [one for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)]
    return frozenset(one.id for one in reads if one not in own.get(one.id, ()))


def _only_target(node: ast.stmt) -> str:
    """Return the plain name that a statement assigns to; "" if it assigns to anything else."""
    if not isinstance(node, ast.Assign) or len(node.targets) > 1:
        return ""
    target = node.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


def _assignments(block: list[ast.stmt]) -> Iterator[tuple[ast.Assign, str, list[ast.stmt]]]:
    """Yield the assignments to one name in a block and those inside it, each with what follows in its block."""
    for index, node in enumerate(block):
        name = _only_target(node)
        if isinstance(node, ast.Assign) and name:
            yield node, name, block[index + 1 :]
        if not isinstance(node, DEFINITIONS):
            for part in BLOCKS:
                yield from _assignments(getattr(node, part, []))


def _is_overwritten(name: str, rest: list[ast.stmt]) -> bool:
    """Return whether the next statement with a name in it assigns it anew without reading it."""
    for node in rest:
        uses = [one for one in ast.walk(node) if isinstance(one, ast.Name) and one.id == name]
        if uses:
            return _only_target(node) == name and len(uses) == 1
    return False
