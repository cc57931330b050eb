"""Describe an error in a learner's code as plain data: its line, and the tensors that this line uses."""

import ast
from collections.abc import Callable, Iterator
from linecache import getline, getlines  # by themselves: code that runs later can't put others in their place
from types import FrameType, TracebackType
from typing import Any

from torch import Tensor, nn

MAX_TEXT = 300  # characters of an error's message, or of a source line
MAX_TENSORS = 6


def describe_error(error: BaseException, is_own: Callable[[str], bool]) -> dict[str, Any]:
    """Describe an error by the innermost line of the learner's code that it passed through.

    Args:
        error: The error that was raised.
        is_own: Tells by its name whether a file holds code of the learner.

    Returns:
        kind, message: The name of its type, and the first line of its text.
        file, line, text, function: The source line, its text, and the function that it is in; "" and 0 if the error
            passed through no code of the learner.
        tensors: [name, shape, line, is_global] of each tensor that the line uses, and of those that these were computed
            from; the line is where the name was last assigned before in the function, or 0.
        unwritten: The name of the function that is still a stub, or None.
        made: The parameters that were made before it stopped; see `run_module`.
    """
    found: dict[str, Any] = {"kind": type(error).__name__[:100], "file": "", "line": 0, "text": "", "function": ""}
    message = error.msg if isinstance(error, SyntaxError) else str(error)
    lines = message.strip().splitlines() or [""]
    first = " ".join(map(str.strip, lines[: 2 if "loading state_dict" in lines[0] else 1]))  # the second says which
    found["message"] = first[:MAX_TEXT]
    found |= {"tensors": [], "unwritten": None, "made": getattr(error, "made", [])}
    if isinstance(error, SyntaxError) and is_own(str(error.filename)):
        place = {"file": str(error.filename), "line": error.lineno or 0}
        return found | place | {"text": (error.text or "").strip()[:MAX_TEXT]}
    traces = [trace for trace in _traces(error) if is_own(trace.tb_frame.f_code.co_filename)]
    if not traces:
        return found
    frame, line = traces[-1].tb_frame, traces[-1].tb_lineno
    file, function = frame.f_code.co_filename, _function_name(frame.f_code.co_qualname)
    text = getline(file, line, frame.f_globals).strip()[:MAX_TEXT]
    if isinstance(error, NotImplementedError) and "NotImplementedError" in text:
        found["unwritten"] = function.split(".")[0]
    return found | {"file": file, "line": line, "text": text, "function": function, "tensors": _tensors(traces[-1])}


def _traces(error: BaseException) -> Iterator[TracebackType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _function_name(qualified: str) -> str:
    """Return "f" for a comprehension in f, and "A.forward" for a method of a class in a function."""
    parts = qualified.split(".")
    while len(parts) > 1 and parts[-1].startswith("<"):
        parts.pop()
    return ".".join(parts).split("<locals>.")[-1]


def _tensors(trace: TracebackType) -> list[list[Any]]:
    """List the tensors in the expression that failed, or in its whole statement if there are none."""
    frame, line = trace.tb_frame, trace.tb_lineno
    lines = getlines(frame.f_code.co_filename, frame.f_globals)
    try:
        nodes = list(ast.walk(ast.parse("".join(lines))))
    except SyntaxError:
        return []
    statements = [node for node in nodes if isinstance(node, ast.stmt)]
    failed = _failed(trace, nodes) or _statement(statements, line)
    found = _tensors_in(failed, statements, frame, line)
    found = found or _tensors_in(_statement(statements, line), statements, frame, line)
    return list(found.values())[:MAX_TENSORS]


def _failed(trace: TracebackType, nodes: list[ast.AST]) -> ast.AST | None:
    """Return the expression that failed, as far as Python knows its place in the source."""
    places = list(trace.tb_frame.f_code.co_positions())
    place = places[trace.tb_lasti // 2] if 0 <= trace.tb_lasti // 2 < len(places) else None
    expressions = (node for node in nodes if isinstance(node, ast.expr))
    return next((n for n in expressions if (n.lineno, n.end_lineno, n.col_offset, n.end_col_offset) == place), None)


def _statement(statements: list[ast.stmt], line: int) -> ast.AST | None:
    """Return the innermost statement that covers a line."""
    covering = [node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)]
    return min(covering, key=lambda node: (node.end_lineno or node.lineno) - node.lineno, default=None)


def _tensors_in(node: ast.AST | None, statements: list[ast.stmt], frame: FrameType, line: int) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for one in sorted(_expressions(node), key=lambda one: (one.lineno, one.col_offset)):
        value, name = _value(one, frame), ast.unparse(one)
        if isinstance(value, Tensor):
            code = frame.f_code  # its co_names hold attributes, too
            is_global = name in code.co_names and name not in code.co_varnames + code.co_cellvars + code.co_freevars
            found.setdefault(name, [name, list(value.shape), _assigned(name, statements, frame, line), is_global])
    return found


def _expressions(node: ast.AST | None) -> list[ast.expr]:
    return [one for one in ast.walk(node) if isinstance(one, ast.expr)] if node else []


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return what a name or an attribute of a module refers to; anything else would run code."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return _element(_value(node.value, frame), _index(node.slice, frame))
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        owner = _value(node.value, frame)
        if isinstance(owner, nn.Module):
            names = ("_parameters", "_buffers", "_modules")  # missing before `super().__init__()`
            stores = (vars(owner), *(vars(owner).get(name, {}) for name in names))
            return next((store[node.attr] for store in stores if node.attr in store), None)
    return None


def _index(node: ast.expr, frame: FrameType) -> Any:
    return node.value if isinstance(node, ast.Constant) else _value(node, frame)


def _element(values: Any, index: Any) -> Any:
    """Return an element of a list or tuple of tensors; anything else would run code."""
    if type(values) in (list, tuple) and type(index) is int and -len(values) <= index < len(values):
        return values[index]
    return None


def _assigned(name: str, statements: list[ast.stmt], frame: FrameType, line: int) -> int:
    """Return the line of the last assignment to a name in its function before a line, or 0."""
    first = frame.f_code.co_firstlineno
    lines = [
        node.lineno
        for node in statements
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and first <= node.lineno < line
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and part.id == name
    ]
    return max(lines, default=0)
