"""Choose the statements of a file or notebook that a name needs, so that its training and printing are not run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
IMPORTS = (ast.Import, ast.ImportFrom)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
NESTED = (*Definition.__args__, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def does_work(tree: ast.Module) -> bool:
    """Return whether importing a file does more than define: it has a loop or a `with` that is no function's."""
    return any(isinstance(statement, (ast.For, ast.While, ast.With)) for statement in tree.body)


def needed(statements: list[ast.stmt], names: Iterable[str]) -> list[ast.stmt]:
    """Return the imports and definitions, and what else the names need, in order.

    A statement is needed if it binds a name that a needed one reads, or changes it, as `table[0] = 1`,
    `table.append(1)` and `sys.path.append("..")` do.
    """
    known = {name for one in statements if isinstance(one, IMPORTS) for name in _bound(one)}
    kept = {at: one for at, one in enumerate(statements) if isinstance(one, (*IMPORTS, *Definition.__args__))}
    wanted = set(names)
    for one in kept.values():
        wanted |= _read_at_once(one)
    read: set[int] = set()
    while True:
        fresh = [at for at, one in enumerate(statements) if at not in read and _matters(one, wanted, known)]
        if not fresh:
            return [statements[at] for at in sorted({*kept, *read})]
        for at in fresh:
            read.add(at)
            wanted |= loaded(statements[at])


def read_by(statements: list[ast.stmt], names: set[str]) -> set[str]:
    """Return the names, and those that their definitions read, and the definitions of these, and so on."""
    found = set(names)
    while True:
        definitions = [one for one in statements if isinstance(one, Definition) and one.name in found]
        if (more := _in_all(definitions)) <= found:
            return found
        found |= more


def bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives a value to in its module."""
    return set(_bound(statement))


def _matters(statement: ast.stmt, wanted: set[str], known: set[str]) -> bool:
    if isinstance(statement, ast.If) and _is_main(statement.test):
        return False
    if set(_bound(statement)) & wanted:
        return True
    changed = _changed(statement)
    return changed is not None and changed in wanted and loaded(statement) <= wanted | known | set(dir(builtins))


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield names that are bound, but not those in the bodies of functions, classes and comprehensions."""
    if isinstance(node, Definition):
        yield node.name
        return
    if isinstance(node, IMPORTS):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        return
    if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _bound(child)


def _changed(statement: ast.stmt) -> str | None:
    """Return the name of the object that an assignment to a part of it, or a call of its method, changes."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        part = statement.value.func
    elif isinstance(statement, ast.Assign):
        part = statement.targets[0]
    else:
        return None
    if not isinstance(part, (ast.Attribute, ast.Subscript)):
        return None
    while isinstance(part, (ast.Attribute, ast.Subscript)):
        part = part.value
    return part.id if isinstance(part, ast.Name) else None


def loaded(node: ast.AST) -> set[str]:
    """Return the names that a node reads, without those that a function or comprehension in it binds for itself."""
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Load) else set()
    if isinstance(node, COMPREHENSIONS):
        own = {name for each in node.generators for name in _bound(each.target)}
        return _in_all(ast.iter_child_nodes(node)) - own | loaded(node.generators[0].iter)
    if isinstance(node, FUNCTIONS):
        body = node.body if isinstance(node.body, list) else [node.body]
        around = [one for one in ast.iter_child_nodes(node) if one not in body]  # decorators, defaults and annotations
        return _in_all(around) | (_in_all(body) - _own_names(node, body))
    return _in_all(ast.iter_child_nodes(node))


def _in_all(nodes: Iterable[ast.AST]) -> set[str]:
    return {name for node in nodes for name in loaded(node)}


def _own_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: list[Any]) -> set[str]:
    """Return the names of a function's arguments and of what it binds in its own body."""
    inside = [one for each in body for one in ast.walk(each)]
    declared = {name for one in inside if isinstance(one, (ast.Global, ast.Nonlocal)) for name in one.names}
    arguments = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)}
    return arguments | {name for each in body for name in _bound(each)} - declared


def _read_at_once(statement: ast.stmt) -> set[str]:
    """Return the names that a definition reads when it is made: decorators, bases, defaults, a class's own lines."""
    if not isinstance(statement, Definition):
        return set()
    parts: list[ast.AST] = [*statement.decorator_list]
    if isinstance(statement, ast.ClassDef):
        parts += [*statement.bases, *(one for one in statement.body if not isinstance(one, NESTED))]
        inner = [_read_at_once(one) for one in statement.body]
        return _in_all(parts).union(*inner)
    parts += [*statement.args.defaults, *(one for one in statement.args.kw_defaults if one is not None)]
    return _in_all(parts)


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
