"""Find the statement that an instruction of running Python was compiled from."""

import ast
import linecache
import re
from dis import opname
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import NamedTuple

from .source import SourceText, by_end, end_of, own_expressions, read_source, start_of
from .source_line import SourceLine, short_name

LIBRARIES = {"torch", "F", "nn", "einops"}  # `F.softmax(x)` is shown whole, `x.softmax()` without the x
TARGETED = (ast.Assign, ast.AugAssign)
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp


class Statement(NamedTuple):
    """The statement that an instruction was compiled from.

    Attributes:
        file, line: Python's file name and line number.
        where: "name.py:12", or "cell:3" in a notebook.
        source: the whole statement on one line, or only its first line if it holds other statements.
        expression: the expression that the instruction completes, without the object it is called on.
        names: the variables that its value is assigned to; "" for any other target, as in `parts[0] = x.view(6, 2)`.
        written: what it writes into through an index: `self.cache` in `self.cache[0] = x`; "" for anything else.
    """

    file: str = ""
    line: int = 0
    where: str = ""
    source: str = ""
    expression: str = ""
    names: tuple[str, ...] = ()
    written: str = ""


def statement_of(code: CodeType | None, instruction: int) -> Statement:
    """Return the statement of an instruction, which is given by its offset in the code in bytes.

    Its texts are empty if there is no code or its source is not available, as for code typed into `python -c`.
    """
    # Equal code objects of two files compare equal in Python, so the file is part of the key.
    return Statement() if code is None else _statement_of(code.co_filename, code, instruction)


def enclosing_comprehension(code: CodeType, instruction: int) -> Statement:
    """Return the list, set or dict comprehension in which an instruction runs, or else what `statement_of` returns.

    Python has no frame for such a comprehension from 3.12 on: its instructions belong to the code around it.
    """
    return _statement_of(code.co_filename, code, instruction, enclosing=True)


def line_at(statement: Statement) -> SourceLine | None:
    """Return the line of a statement, or None if it has none."""
    return SourceLine(statement.file, statement.line) if statement.where else None


def call_at(code: CodeType, instruction: int) -> ast.Call | None:
    """Return the call that an instruction makes."""
    node, _ = _node_at(code, instruction) or (None, None)
    return node if isinstance(node, ast.Call) else None


@lru_cache(maxsize=4096)
def _statement_of(file: str, code: CodeType, instruction: int, enclosing: bool = False) -> Statement:
    line = _positions(code, instruction)[0] or code.co_firstlineno
    linecache.checkcache(file)  # the file may have changed and been imported again
    text = read_source(file)
    if not 0 < line <= len(text.lines):
        return Statement(file, line, short_name(file, line))
    match = _node_at(code, instruction)
    if match is None:
        return Statement(file, line, short_name(file, line), _fold(text.lines[line - 1]))
    node, statement = match
    outer = _comprehension_around(statement, node) if enclosing else None
    if outer is not None:
        line, node = outer.lineno, outer
    where, source = short_name(file, line), _header(text, statement)
    return Statement(
        file, line, where, source, _shortened(text, node), _targets(statement, node), _written(text, statement, node)
    )


def _positions(code: CodeType, instruction: int) -> tuple[int | None, int | None, int | None, int | None]:
    """Return the first line, the last line, the first column and the last column of an instruction."""
    return next(islice(code.co_positions(), instruction // 2, None), (None, None, None, None))


def _node_at(code: CodeType, instruction: int) -> tuple[ast.expr | ast.stmt, ast.stmt] | None:
    """Return the expression of an instruction and its statement; of `x[0] += 1` what reads or what stores x[0].

    The package `executing` finds the same nodes from the same positions, but takes frames, and learners would need it.
    """
    line, end_line, column, end_column = _positions(code, instruction)
    if line is None or end_line is None or column is None or end_column is None:
        return None
    candidates = by_end(read_source(code.co_filename).outermost_at(line, column)).get((end_line, end_column), [])
    matches = [pair for pair in candidates if start_of(pair[0]) == (line, column)]
    # For Python, a method call on a separate line begins with the method's name.
    matches = matches or [pair for pair in candidates if isinstance(pair[0], ast.Call)]
    if not matches:
        return None
    node, statement = matches[0]
    reads = isinstance(statement, ast.AugAssign) and not opname[code.co_code[instruction]].startswith("STORE")
    if isinstance(getattr(node, "ctx", None), ast.Store) and isinstance(statement, TARGETED) and not reads:
        node = statement  # `x[0] = 1` and `a, b = x` do more than evaluate their left sides
    return node, statement


def _header(text: SourceText, statement: ast.stmt) -> str:
    """Return a statement on one line; for `with`, `if` and `for`, only the part before the block."""
    end = end_of(statement)
    if isinstance(statement, ast.Match):
        end = (statement.cases[0].pattern.lineno, 0)
    elif body := getattr(statement, "body", None):
        end = start_of(body[0])
    return _fold(text.between(start_of(statement), end))


def _shortened(text: SourceText, node: ast.expr | ast.stmt) -> str:
    """Return an expression without the object it is called on: `.view(6, 2)`, `[:, None]`, `q_proj(x)`."""
    whole = _fold(text.between(start_of(node), end_of(node)))
    called = node.func if isinstance(node, ast.Call) else node
    if isinstance(called, ast.Attribute):
        owner = _fold(text.between(start_of(called.value), end_of(called.value)))
        if owner in LIBRARIES or owner.startswith(("torch.", "nn.")):
            return whole
        if re.fullmatch(r"self(\.\w+)*", owner):
            return whole.removeprefix("self.")
        begins_with = called.value
    elif isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Name):
        begins_with = node.value
    else:
        return whole
    return _fold(text.between(end_of(begins_with), end_of(node))).lstrip(") ")  # without its closing brackets


def _comprehension_around(statement: ast.stmt, node: ast.expr | ast.stmt) -> Comprehension | None:
    """Return the outermost list, set or dict comprehension that runs a node for each of its items."""
    for outer in ast.walk(statement):  # from the outside inwards
        if isinstance(outer, Comprehension):
            runs_once = set(ast.walk(outer.generators[0].iter))
            if node is not outer and node not in runs_once and any(node is inner for inner in ast.walk(outer)):
                return outer
    return None


def _targets(statement: ast.stmt, node: ast.expr | ast.stmt) -> tuple[str, ...]:
    """Return the names to which the statement assigns the value of an expression."""
    for walrus in own_expressions(statement):
        if isinstance(walrus, ast.NamedExpr) and walrus.value is node:
            return (walrus.target.id,)
    if isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AugAssign):  # the target is no name of what is added to it
        target, value = statement.target, statement
    elif isinstance(statement, ast.AnnAssign):
        target, value = statement.target, statement.value
    else:
        return ()
    choices = (value.body, value.orelse) if isinstance(value, ast.IfExp) else ()
    if node in (value, statement, *choices):
        targets = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
    elif isinstance(value, ast.Tuple) and isinstance(target, ast.Tuple) and len(value.elts) == len(target.elts):
        targets = [each for each, item in zip(target.elts, value.elts, strict=True) if item is node]
    else:
        return ()
    return tuple(ast.unparse(each) if isinstance(each, (ast.Name, ast.Attribute)) else "" for each in targets)


def _written(text: SourceText, statement: ast.stmt, node: ast.expr | ast.stmt) -> str:
    """Return what a statement writes into through an index, if that is what the node does."""
    if node is not statement or not isinstance(statement, TARGETED):
        return ""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    if not isinstance(target, ast.Subscript):
        return ""
    return _fold(text.between(start_of(target.value), end_of(target.value)))


def _fold(text: str) -> str:
    text = re.sub(r",\s*\n\s*(?=[)\]}])", "", text.replace("\\\n", "\n"))
    text = re.sub(r"(?<=[(\[{])\s*\n\s*|\s*\n\s*(?=[)\]}]|\.\D)", "", text)
    text = re.sub(r"\s*\n\s*", " ", text).strip()
    return text if re.search("[\"']", text) else re.sub(" +", " ", text)  # the string of an einsum keeps its spaces
