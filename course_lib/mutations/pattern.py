"""Patterns of source code: find an expression by its form, and replace the part of it that a mistake changes."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from .source import Node

# The parameters of PyTorch's functions, so that `x.softmax(-1)` and `F.softmax(x, dim=-1)` are one form.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "cat": ("tensors", "dim"),
    "dropout": ("input", "p", "training"),
    "expand": ("input", "*size"),
    "flatten": ("input", "start_dim", "end_dim"),
    "flip": ("input", "dims"),
    "masked_fill": ("input", "mask", "value"),
    "masked_fill_": ("input", "mask", "value"),
    "matmul": ("input", "other"),
    "nan_to_num": ("input", "nan"),
    "permute": ("input", "*dims"),
    "repeat_interleave": ("input", "repeats", "dim"),
    "reshape": ("input", "*shape"),
    "stack": ("tensors", "dim"),
    "transpose": ("input", "dim0", "dim1"),
    "tril": ("input", "diagonal"),
    "triu": ("input", "diagonal"),
    "view": ("input", "*shape"),
    "where": ("condition", "input", "other"),
    **dict.fromkeys(("abs", "clone", "detach", "exp", "log", "sqrt"), ("input",)),
    **dict.fromkeys(("cumsum", "log_softmax", "softmax"), ("input", "dim")),
    **dict.fromkeys(("all", "amax", "amin", "any", "argmax", "argmin", "mean", "sum"), ("input", "dim", "keepdim")),
    "logsumexp": ("input", "dim", "keepdim"),
}
MODULES = {"torch", "F", "nn", "functional", "Tensor", "math", "np"}

Found = dict[str, ast.expr]
ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.Tuple)  # never need brackets


def method(node: ast.AST | None) -> str:
    """The name of the function or method that a call names; "" for anything else."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", ""))


def literal(node: ast.AST | None) -> Any:
    """The number, text or tuple that an expression writes out; None for anything else."""
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError):
        return None


def arguments(node: ast.Call) -> dict[str, ast.expr] | None:
    """Parameter -> argument of a call of a function in `PARAMETERS`; None for any other call, or with `*` arguments."""
    names = PARAMETERS.get(method(node))
    if names is None or any(isinstance(argument, ast.Starred) for argument in node.args):
        return None
    given = list(node.args)
    if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
        given.insert(0, node.func.value)
    found = {}
    for name, argument in zip(names, given, strict=False):
        if name.startswith("*"):
            break
        found[name] = argument
    return found | {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}


def _is_module(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name in MODULES


def is_root(node: ast.AST) -> bool:
    """Whether an expression is a square root, or one divided by it."""
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and literal(node.right) in (0.5, -0.5)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and literal(node.left) in (1, 1.0):
        return is_root(node.right)
    return power or method(node) in ("sqrt", "rsqrt")


def is_lowest(node: ast.AST) -> bool:
    """Whether an expression is what masked scores are filled with: minus infinity, or a number as good as that."""
    text, value = ast.unparse(node), literal(node)
    return "inf" in text or "finfo" in text or (isinstance(value, (int, float)) and value <= -1e4)


def _is_own(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"


def _is_dropout(node: ast.AST) -> bool:
    return "drop" in getattr(node, "attr", "").lower()


CONDITIONS: Mapping[str, Callable[[ast.AST], bool]] = {
    "ROOT": is_root,
    "LOW": is_lowest,
    "LAST": lambda node: literal(node) in (-1, 3),
    "ONE": lambda node: literal(node) == 1,
    "LAYER": lambda node: _is_own(node) and not _is_dropout(node),  # without dropout the output stays the same
    "DROP": lambda node: _is_own(node) and _is_dropout(node),
}
VARIABLE = re.compile(r"\b[A-Z]+\b")


@cache
def _parsed(pattern: str) -> ast.AST:
    statement = ast.parse(pattern).body[0]
    return statement.value if isinstance(statement, ast.Expr) else statement


def match(pattern: str, node: ast.AST) -> Found | None:
    """Match an expression or a statement with a pattern, in which capital letters stand for expressions.

    Args:
        pattern: Such as "softmax(X, dim=LAST)". A name of `CONDITIONS` stands for an expression that meets it, any
            other name in capitals for any expression, and for the same one wherever it stands again.
        node: The expression or statement.

    Returns:
        Name in capitals -> expression; None if it has another form.
    """
    found: Found = {}
    return found if _matches(_parsed(pattern), node, found) else None


def _matches(pattern: ast.AST, node: Any, found: Found) -> bool:
    if isinstance(pattern, ast.Name) and VARIABLE.fullmatch(pattern.id):
        if not isinstance(node, ast.expr) or not CONDITIONS.get(pattern.id, lambda _: True)(node):
            return False
        return ast.unparse(found.setdefault(pattern.id, node)) == ast.unparse(node)
    if isinstance(pattern, ast.Call) and isinstance(pattern.func, ast.Name) and pattern.func.id in PARAMETERS:
        if method(node) != pattern.func.id:  # first, because it is so for most
            return False
        asked, given = arguments(pattern), arguments(node)
        if asked is None or given is None:
            return False
        return asked.keys() == given.keys() and all(_matches(asked[name], given[name], found) for name in asked)
    if type(pattern) is not type(node):
        return False
    return all(
        _match_field(value, getattr(node, name, None), found)
        for name, value in ast.iter_fields(pattern)
        if name not in ("ctx", "type_comment", "kind")
    )


def _match_field(pattern: Any, value: Any, found: Found) -> bool:
    if isinstance(pattern, list):
        same = isinstance(value, list) and len(pattern) == len(value)
        return same and all(_match_field(*both, found) for both in zip(pattern, value, strict=True))
    return _matches(pattern, value, found) if isinstance(pattern, ast.AST) else pattern == value


def fill_in(template: str, found: Mapping[str, ast.AST], text: Callable[[ast.AST], str]) -> str:
    """Write a template's expression, with the text of what was found in the place of each name in capitals.

    Args:
        template: Such as "X.softmax(dim=-2)".
        found: What `match` returned.
        text: The source of an expression.
    """

    def written(name: re.Match[str]) -> str:
        if name[0] not in found:
            return name[0]
        before, after = template[: name.start()].rstrip()[-1:], template[name.end() :].lstrip()[:1]
        alone = before in ("", "(", ",", "=") and after in ("", ")", ",")
        return text(found[name[0]]) if alone or isinstance(found[name[0]], ATOMS) else f"({text(found[name[0]])})"

    return VARIABLE.sub(written, template)


def walk(tree: ast.AST) -> Iterator[Node]:
    """All expressions and statements, in the order in which they are read."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, Node)]
    yield from sorted(nodes, key=lambda node: (node.lineno, node.col_offset, -(node.end_col_offset or 0)))
