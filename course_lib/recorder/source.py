"""From an instruction of running Python back to the words of its author."""

from __future__ import annotations

import ast
import io
import linecache
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType
from typing import NamedTuple

CELL = re.compile(r"<ipython-input-|ipykernel_\d+")  # how IPython and its kernels name the code of a cell

LIBRARIES = {"torch", "F", "nn", "einops"}  # `F.softmax(x)` is told whole, `x.softmax()` without the x


class Place(NamedTuple):
    """Where an instruction stands.

    Attributes:
        file, line: as Python knows them.
        where: "name.py:12", "cell:3" in a notebook.
        source: the whole statement, or its first line if it holds others; blanks folded.
        code: the expression that the instruction ends, without what it is called on.
        names: the variables its value is assigned to; "" for what is none, as in `parts[0] = x.view(6, 2)`.
    """

    file: str = ""
    line: int = 0
    where: str = ""
    source: str = ""
    code: str = ""
    names: tuple[str, ...] = ()


def where_of(file: str, line: int) -> str:
    """A line in few letters: "name.py:12", or "cell:3" in a notebook, whose cells have no names."""
    return f"cell:{line}" if CELL.search(file) else f"{Path(file).name}:{line}"


def place_of(code: CodeType | None, instruction: int) -> Place:
    """Say where an instruction stands and what is written there.

    Args:
        code: the code object that runs, or None.
        instruction: offset of the instruction in it, in bytes.

    Returns:
        Place; with empty texts where the source can't be had, as for code typed into `python -c`.
    """
    # Equal code in two files is equal for Python: the file belongs to the key.
    return Place() if code is None else _place_of(code.co_filename, code, instruction)


def place_around(code: CodeType, instruction: int) -> Place:
    """Say where the list, set or dict comprehension stands that an instruction runs in, else where it stands itself.

    Python has no frame for such a comprehension from 3.12 on: its instructions belong to the code around it.
    """
    return _place_of(code.co_filename, code, instruction, around=True)


@lru_cache(maxsize=4096)
def _place_of(file: str, code: CodeType, instruction: int, around: bool = False) -> Place:
    line, end_line, column, end_column = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    line = line or code.co_firstlineno
    linecache.checkcache(file)  # a file that was changed and imported again
    lines = linecache.getlines(file)
    if not 0 < line <= len(lines):
        return Place(file, line, where_of(file, line))
    found = None
    if end_line is not None and end_column is not None:
        found = _read("".join(lines)).find((line, column), (end_line, end_column), around)
    line, *words = found or (line, _fold(lines[line - 1]))
    return Place(file, line, where_of(file, line), *words)


class _Text:
    """A parsed source file, its expressions to be found by where they end."""

    def __init__(self, text: str) -> None:
        self._lines = [line.encode() for line in io.StringIO(text)]  # str.splitlines cuts at form feeds as well
        self._by_end: dict[tuple[int, int], list[tuple[ast.expr | ast.stmt, ast.stmt]]] = {}
        try:
            tree = ast.parse(text)
        except SyntaxError:
            return
        for kind, _, (line, column), _, whole in tokenize.generate_tokens(io.StringIO(text).readline):
            if kind == tokenize.COMMENT:
                self._lines[line - 1] = whole[:column].encode() + b"\n"
        for statement in ast.walk(tree):
            if isinstance(statement, ast.stmt):
                whole = [statement] if isinstance(statement, ast.AugAssign) else []  # `scores += bias` is one call
                for node in (*whole, *_own_expressions(statement)):
                    self._by_end.setdefault((node.end_lineno, node.end_col_offset), []).append((node, statement))

    def find(
        self, start: tuple[int, int], end: tuple[int, int], around: bool
    ) -> tuple[int, str, str, tuple[str, ...]] | None:
        """Return (line, source, code, names) of the expression at a place, or of the comprehension around; or None."""
        candidates = self._by_end.get(end, [])
        exact = [pair for pair in candidates if (pair[0].lineno, pair[0].col_offset) == start]
        # A method called on a line of its own begins, for Python, with the method's name.
        calls = [pair for pair in candidates if isinstance(pair[0], ast.Call)]
        if not exact and not calls:
            return None
        node, statement = (exact or calls)[0]
        if isinstance(getattr(node, "ctx", None), ast.Store) and isinstance(statement, (ast.Assign, ast.AugAssign)):
            node = statement  # `x[0] = 1` and `a, b = x` do more than what stands on their left
        line, comprehension = start[0], _comprehension_around(statement, node) if around else None
        if comprehension is not None:
            line, node = comprehension.lineno, comprehension
        return line, self._statement(statement), self._code(node), _targets(statement, node)

    def _statement(self, statement: ast.stmt) -> str:
        start = (statement.lineno, statement.col_offset)
        if isinstance(statement, ast.Match):
            return _fold(self._between(start, (statement.cases[0].pattern.lineno, 0)))
        body = getattr(statement, "body", None)
        if body:  # `with`, `if`, `for`: the part before the block
            return _fold(self._between(start, (body[0].lineno, body[0].col_offset)))
        return self._of(statement)

    def _code(self, node: ast.expr | ast.stmt) -> str:
        whole = self._of(node)
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(called, ast.Attribute):
            owner = self._of(called.value)
            if owner in LIBRARIES or owner.startswith(("torch.", "nn.")):
                return whole
            if re.fullmatch(r"self(\.\w+)*", owner):
                return whole.removeprefix("self.")
            return self._after(called.value, node)
        if isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Name):
            return self._after(node.value, node)
        return whole

    def _after(self, part: ast.expr, node: ast.expr | ast.stmt) -> str:
        """What a node adds to the expression that it begins with: `.view(6, 2)`, `[:, None]`."""
        start, end = (part.end_lineno, part.end_col_offset), (node.end_lineno, node.end_col_offset)
        return _fold(self._between(start, end)).lstrip(") ")  # brackets around the part belong to it

    def _of(self, node: ast.expr | ast.stmt) -> str:
        return _fold(self._between((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)))

    def _between(self, start: tuple[int, int], end: tuple[int, int]) -> str:
        """The text from one (line, byte) to another, as ast counts them."""
        lines = self._lines[start[0] - 1 : end[0]]
        if len(lines) == 1:
            return lines[0][start[1] : end[1]].decode()
        return b"".join([lines[0][start[1] :], *lines[1:-1], lines[-1][: end[1]]]).decode()


_read = lru_cache(maxsize=64)(_Text)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, without those of the statements in its block."""
    waiting = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr):
            yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _comprehension_around(statement: ast.stmt, node: ast.expr | ast.stmt) -> ast.expr | None:
    """The outermost list, set or dict comprehension that runs a node for each of its items."""
    for one in ast.walk(statement):  # from the outside inwards
        if isinstance(one, (ast.ListComp, ast.SetComp, ast.DictComp)):
            runs_once = set(ast.walk(one.generators[0].iter))
            if node is not one and node not in runs_once and any(node is inner for inner in ast.walk(one)):
                return one
    return None


def _targets(statement: ast.stmt, node: ast.expr | ast.stmt) -> tuple[str, ...]:
    """The names that get the value of an expression of the statement."""
    for walrus in _own_expressions(statement):
        if isinstance(walrus, ast.NamedExpr) and walrus.value is node:
            return (walrus.target.id,)
    if isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, (ast.AnnAssign, ast.AugAssign)):
        target, value = statement.target, statement.value
    else:
        return ()
    choices = (value.body, value.orelse) if isinstance(value, ast.IfExp) else ()
    if node in (value, statement, *choices):
        targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    elif isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
        targets = [one for one, item in zip(target.elts, value.elts, strict=True) if item is node]
    else:
        return ()
    return tuple(ast.unparse(one) if isinstance(one, (ast.Name, ast.Attribute)) else "" for one in targets)


def _fold(text: str) -> str:
    """Bring a piece of code to one line: what only breaks and aligns the lines goes."""
    text = re.sub(r",\s*\n\s*(?=[)\]}])", "", text.replace("\\\n", "\n"))
    text = re.sub(r"(?<=[(\[{])\s*\n\s*|\s*\n\s*(?=[)\]}]|\.\D)", "", text)
    text = re.sub(r"\s*\n\s*", " ", text).strip()
    return text if re.search("[\"']", text) else re.sub(" +", " ", text)  # a word of an einsum keeps its blanks
