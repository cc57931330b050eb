"""A cell of a notebook as plain Python: what only Jupyter understands is left out, line numbers stay."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection

from course_lib.classroom.handed_in.unreadable import shown

PARSED = 200_000  # characters: Python needs about 600 times as many bytes to take a cell apart

_AROUND = re.compile(r"(?:\s*%%(?:time|timeit|capture|prun)\b[^\n]*)+")  # they run the rest of their cell
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_REST = r"(?:\\\n|[^\n])*"  # of a line, and of those that it goes on in
_COMMAND = re.compile(
    r"([ \t]*)(?:"
    rf"[%!?]{_REST}"  # %matplotlib inline, !ls, ?print
    rf"|(?P<assigned>[^=\n#\"'(]+=[ \t]*(?:!|%\w){_REST})"  # files = !ls
    rf"|(?:pip3?|conda|mamba)[ \t]+(?:install|uninstall|list)\b{_REST}"  # Jupyter takes these without their %
    r"|[\w*][\w.*\[\]]*\?\??[ \t;]*(?=\n|\Z)"  # print?
    r")"
)
_TOKEN = re.compile(
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*(?:"""|\\?\Z)'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*(?:'''|\\?\Z)"
    r'|"(?:[^"\\\n]|\\.)*"?'
    r"|'(?:[^'\\\n]|\\.)*'?"
    r"|\#[^\n]*|\\\n|[\n()\[\]{}]",
    re.DOTALL,
)
_DEFINITION = re.compile(r"^(?:async[ \t]+def|def|class)[ \t]+(\w+)", re.MULTILINE)


def runnable(source: str) -> tuple[str, str | None]:
    """Make a cell plain Python.

    Args:
        source: the cell as the student wrote it; if Python can read it, nothing is changed.

    Returns:
        The code, with `pass` where a line was a command for Jupyter, and a remark or None.
    """
    if tree(source) is not None or len(source) > PARSED:
        return source, None
    source = (
        _AROUND.sub(lambda lines: "\n" * lines[0].count("\n"), source, count=1) if _AROUND.match(source) else source
    )
    if magic := _CELL_MAGIC.match(source):
        return "", f"The cell that begins with `%%{shown(magic[1], 20)}` was left out: only Python is run."
    if indent := re.match(r"\n*([ \t]+)", source):  # Jupyter moves a cell to the left that is indented as a whole
        source = re.sub(f"^{indent[1]}", "", source, flags=re.MULTILINE)
    return _without_commands(source)


def _without_commands(source: str) -> tuple[str, str | None]:
    """Put `pass` for Jupyter's commands where a statement may begin: not in brackets or a string of many lines."""
    code, remark, depth, place = [], None, 0, 0
    begins = True
    while place < len(source):
        if begins and (command := _COMMAND.match(source, place)):
            code.append(f"{command[1]}pass" + "\n" * command[0].count("\n"))
            if command["assigned"]:
                remark = f"`{shown(command['assigned'].strip(), 40)}` is a command of Jupyter and was left out."
            place = command.end()
        token = _TOKEN.search(source, place)
        end = token.end() if token else len(source)
        mark = token[0] if token else ""
        code.append(source[place:end])
        place = end
        depth = max(0, depth + (mark in tuple("([{")) - (mark in tuple(")]}")))
        begins = mark == "\n" and depth == 0
    return "".join(code), remark


def tree(source: str) -> ast.Module | None:
    """Python's own reading of a cell, or None where it can't be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source) if len(source) <= PARSED else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: a zero byte
        return None


def syntax_problem(source: str) -> str | None:
    """What Python says of a cell that it can't read, with the line; None where it can, or where it is too long."""
    if len(source) > PARSED:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "cell", "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = source.split("\n")
        line = error.lineno or 1
        text = lines[line - 1].strip() if line <= len(lines) else ""
        return f"line {line}, `{shown(text, 60)}`: {shown(error.msg, 100)}"
    except (ValueError, RecursionError, MemoryError):
        return "it holds what no program can, or is nested too deeply"
    return None


def definitions(source: str) -> list[str]:
    """The functions, classes and variables that a cell defines at its top, in their order."""
    module = tree(source)
    if module is None:
        return list(dict.fromkeys(_DEFINITION.findall(source)))
    names: list[str] = []
    for statement in module.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.append(name)
            case ast.Assign(targets=targets):
                names += [one.id for target in targets for one in _parts(target) if isinstance(one, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                names.append(name)
    return list(dict.fromkeys(names))


def _parts(target: ast.expr) -> Collection[ast.expr]:
    return target.elts if isinstance(target, (ast.Tuple, ast.List)) else (target,)
