"""Source code with some of its text replaced; all other text, its comments and its lines stay."""

import ast
import linecache
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, NamedTuple

Node = ast.expr | ast.stmt | ast.keyword


class Edit(NamedTuple):
    """Text that replaces a stretch of source code, given by its first and its last offset."""

    start: int
    end: int
    text: str


class Source:
    """Source code, and where its expressions and statements stand in it.

    Attributes:
        text: The code.
        tree: Its syntax tree.
    """

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, ast.parse(text)

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate((len(line.encode()) for line in self.text.splitlines(keepends=True)), initial=0))

    @cached_property
    def _bytes(self) -> bytes:
        return self.text.encode()

    def span(self, node: Node) -> tuple[int, int]:
        """The offsets, in bytes, at which a node begins and ends."""
        first, last = self._starts[node.lineno - 1], self._starts[(node.end_lineno or node.lineno) - 1]
        return first + node.col_offset, last + (node.end_col_offset or 0)

    def text_of(self, node: ast.AST) -> str:
        """The text of a node; made anew for one that is not of this source."""
        if not isinstance(node, Node) or not hasattr(node, "end_lineno"):
            return ast.unparse(node)
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def line(self, edit: Edit) -> int:
        """The number of the line on which an edit begins, counted from 1."""
        return bisect_right(self._starts, edit.start)

    @cached_property
    def names(self) -> set[str]:
        """The names that are assigned anywhere."""
        return {
            node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }

    def value_of(self, node: ast.AST) -> ast.AST:
        """What is assigned to a name last before it stands here; the node itself if it is no name."""
        stored = [
            one
            for one in ast.walk(self.tree)
            if isinstance(one, ast.Assign)
            and one.lineno < getattr(node, "lineno", 0)
            and ast.dump(one.targets[0]).replace("Store", "Load") == ast.dump(node)
        ]
        return max(stored, key=lambda one: one.lineno).value if stored else node

    def function_of(self, node: Node) -> str:
        """The name of the innermost function that a statement stands in."""
        around = [
            one
            for one in ast.walk(self.tree)
            if isinstance(one, ast.FunctionDef) and one.lineno <= node.lineno <= (one.end_lineno or 0)
        ]
        return max(around, key=lambda one: one.lineno).name if around else ""

    def without_argument(self, call: ast.Call, keyword: ast.keyword) -> Edit:
        """The edit that takes an argument out of a call, with the comma beside it."""
        parts = sorted([*call.args, *call.keywords], key=lambda one: (one.lineno, one.col_offset))
        at = parts.index(keyword)
        if at:
            return Edit(self.span(parts[at - 1])[1], self.span(keyword)[1], "")
        return Edit(self.span(keyword)[0], self.span(parts[1])[0] if len(parts) > 1 else self.span(keyword)[1], "")

    def replace(self, node: Node, text: str) -> Edit:
        """The edit that puts a text in the place of a node, in parentheses where it would be torn apart without."""
        bare, whole = Edit(*self.span(node), text), Edit(*self.span(node), f"({text})")
        torn = isinstance(node, ast.expr) and len(text.split()) > 1 and self._tree_of(bare) != self._tree_of(whole)
        return whole if torn else bare

    def _tree_of(self, edit: Edit) -> str:
        try:
            return ast.dump(ast.parse(self.edited([edit])))
        except SyntaxError:  # such as a keyword argument in the place of an expression
            return ""

    def edited(self, edits: Sequence[Edit]) -> str:
        """The code after some edits, which must not overlap."""
        code = self._bytes
        for start, end, text in sorted(edits, reverse=True):
            code = code[:start] + text.encode() + code[end:]
        return code.decode()


def run_source(text: str, file: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run source code among some names, so that its lines can be read as those of a file; return all names."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)
    return names
