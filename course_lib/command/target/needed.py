"""Choose the statements of a file or notebook that a name needs, so that its training and printing are not run."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
IMPORTS = (ast.Import, ast.ImportFrom)
NESTED = (*Definition.__args__, ast.Lambda)


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
            wanted |= set(_loaded(statements[at]))


def bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives a value to in its module."""
    return set(_bound(statement))


def _matters(statement: ast.stmt, wanted: set[str], known: set[str]) -> bool:
    if isinstance(statement, ast.If) and _is_main(statement.test):
        return False
    if set(_bound(statement)) & wanted:
        return True
    changed = _changed(statement)
    return changed is not None and changed in wanted and set(_loaded(statement)) <= wanted | known | set(dir(builtins))


def _bound(node: ast.AST) -> Iterator[str]:
    """Yield names that are bound, but not those in the bodies of functions, classes and comprehensions."""
    if isinstance(node, Definition):
        yield node.name
        return
    if isinstance(node, IMPORTS):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
        return
    if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
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


def _loaded(node: ast.AST) -> Iterator[str]:
    return (one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load))


def _read_at_once(statement: ast.stmt) -> set[str]:
    """Return the names that a definition reads when it is made: decorators, bases, defaults, a class's own lines."""
    if not isinstance(statement, Definition):
        return set()
    parts: list[ast.AST] = [*statement.decorator_list]
    if isinstance(statement, ast.ClassDef):
        parts += [*statement.bases, *(one for one in statement.body if not isinstance(one, NESTED))]
        inner = [_read_at_once(one) for one in statement.body]
        return {name for part in parts for name in _loaded(part)}.union(*inner)
    parts += [*statement.args.defaults, *(one for one in statement.args.kw_defaults if one is not None)]
    return {name for part in parts for name in _loaded(part)}


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
