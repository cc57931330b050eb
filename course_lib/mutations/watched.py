"""A function whose expressions are watched while it runs."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, cast

from torch import Tensor

from .source import Node, Source

WATCH, BEGIN = "_watch", "_begin"
Place = tuple[int, int, int | None, int | None]


def place(node: Node) -> Place:
    """Where a node stands: its first line and column, and its last."""
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


class Watched:
    """A function's source, and the value of each of its expressions in one run.

    Attributes:
        function: The function.
        source: Its source code.
        definition: Its definition in the tree of that source.
        sizes: Size -> the name of the axis that has it in that run.
        shapes: Shape -> the names of its axes, where a size has several names.
        arguments: Parameter -> its value in that run.
        values: Place of an expression -> its first value.
    """

    def __init__(
        self, function: FunctionType, sizes: Mapping[int, str], shapes: Mapping[tuple[int, ...], Sequence[str]]
    ) -> None:
        self.function, self.sizes, self.shapes = function, sizes, shapes
        self.source = Source(textwrap.dedent(inspect.getsource(function)))
        self.definition = next(node for node in self.source.tree.body if isinstance(node, ast.FunctionDef))
        self.arguments: dict[str, Any] = {}
        self.values: dict[Place, Any] = {}

    def watching(self, names: Mapping[str, Any]) -> Callable[..., Any]:
        """The same function among some global names; its first call keeps the values of its expressions."""
        tree = ast.parse(self.source.text)
        definition = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
        body = [_Wrapper().visit(statement) for statement in definition.body]
        definition.body = [*ast.parse(f"{BEGIN}(locals())").body, *body]
        space = {**names, WATCH: self._keep, BEGIN: self._begin}
        exec(compile(ast.fix_missing_locations(tree), "<watched>", "exec"), space)
        return space[self.function.__name__]

    def _begin(self, arguments: dict[str, Any]) -> None:
        self.arguments = self.arguments or dict(arguments)

    def _keep(self, at: Place, value: Any) -> Any:
        self.values.setdefault(at, value)
        return value

    def value(self, node: ast.AST) -> Any:
        """The value of an expression; None if it was not run."""
        return self.values.get(place(node)) if isinstance(node, Node) else None

    def tensor(self, node: ast.AST) -> Tensor | None:
        """The tensor that is an expression's value, or the first one in a list; None for anything else."""
        value = self.value(node)
        value = value[0] if isinstance(value, Sequence) and value else value
        return value if isinstance(value, Tensor) else None

    def axes(self, node: ast.AST) -> list[str]:
        """The names of the axes of an expression's value, "" for an axis without a name."""
        tensor = self.tensor(node)
        shape = () if tensor is None else tuple(tensor.shape)
        return list(self.shapes.get(shape, [self.sizes.get(size, "") for size in shape]))

    def axis(self, node: ast.AST, index: int) -> str:
        """The name of one axis of an expression's value; "" if it has none, or shares it with another axis."""
        names = self.axes(node)
        name = names[index] if -len(names) <= index < len(names) else ""
        return name if names.count(name) == 1 else ""


class _Wrapper(ast.NodeTransformer):
    """Puts each expression that is computed into a call that keeps its value."""

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.expr) or not _is_computed(node):
            return self.generic_visit(node)
        where = ast.parse(repr(place(node)), mode="eval").body
        return ast.Call(ast.Name(WATCH, ast.Load()), [where, cast("ast.expr", self.generic_visit(node))], [])


def _is_computed(node: ast.expr) -> bool:
    if isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts):
        return False
    loads = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
    return loads and not isinstance(node, (ast.Slice, ast.Starred, ast.Constant, ast.JoinedStr, ast.FormattedValue))
