"""Choose the statements of a file or notebook that a name needs, so that its training and printing are not run."""

import ast
import builtins
from collections.abc import Iterable
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
    known = {name for statement in statements if isinstance(statement, IMPORTS) for name in bound(statement)}
    kept = {at for at, each in enumerate(statements) if isinstance(each, (*IMPORTS, *Definition.__args__))}
    wanted = set(names).union(*(_read_at_once(statements[at]) for at in kept))
    read: set[int] = set()
    while True:
        fresh = [at for at, statement in enumerate(statements) if at not in read and _matters(statement, wanted, known)]
        if not fresh:
            return [statements[at] for at in sorted(kept | read)]
        for at in fresh:
            read.add(at)
            wanted |= loaded(statements[at])


def names_read(statements: list[ast.stmt], names: set[str]) -> set[str]:
    """Return the names, and those that their definitions read, and the definitions of these, and so on."""
    reached = set(names)
    while True:
        definitions = [
            statement for statement in statements if isinstance(statement, Definition) and statement.name in reached
        ]
        if (more := _in_all(definitions)) <= reached:
            return reached
        reached |= more


def _matters(statement: ast.stmt, wanted: set[str], known: set[str]) -> bool:
    if isinstance(statement, ast.If) and _is_main(statement.test):
        return False
    if bound(statement) & wanted:
        return True
    changed = _changed(statement)
    return changed is not None and changed in wanted and loaded(statement) <= wanted | known | set(dir(builtins))


def bound(node: ast.AST) -> set[str]:
    """Return the names that a statement or target binds, without those inside functions, classes and comprehensions."""
    if isinstance(node, Definition):
        return {node.name}
    if isinstance(node, IMPORTS):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
        return set()
    names = {node.id} if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else set()
    return names.union(*map(bound, ast.iter_child_nodes(node)))


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
        variables = {name for each in node.generators for name in bound(each.target)}
        return _in_all(ast.iter_child_nodes(node)) - variables | loaded(node.generators[0].iter)
    if isinstance(node, FUNCTIONS):
        body = node.body if isinstance(node.body, list) else [node.body]
        around = [each for each in ast.iter_child_nodes(node) if each not in body]  # decorators, defaults, annotations
        return _in_all(around) | (_in_all(body) - _own_names(node, body))
    return _in_all(ast.iter_child_nodes(node))


def _in_all(nodes: Iterable[ast.AST]) -> set[str]:
    return {name for node in nodes for name in loaded(node)}


def _own_names(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: list[Any]) -> set[str]:
    inside = [inner for each in body for inner in ast.walk(each)]
    declared = {name for node in inside if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    return arguments | {name for each in body for name in bound(each)} - declared


def _read_at_once(statement: ast.stmt) -> set[str]:
    """Return the names that a definition reads as it runs: decorators, bases, defaults, a class's own lines."""
    if not isinstance(statement, Definition):
        return set()
    parts: list[ast.AST] = [*statement.decorator_list]
    if isinstance(statement, ast.ClassDef):
        parts += [*statement.bases, *(child for child in statement.body if not isinstance(child, NESTED))]
        inner = [_read_at_once(child) for child in statement.body]
        return _in_all(parts).union(*inner)
    parts += [*statement.args.defaults, *(default for default in statement.args.kw_defaults if default is not None)]
    return _in_all(parts)


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
