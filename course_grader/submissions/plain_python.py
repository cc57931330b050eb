"""Convert a notebook cell to plain Python: Jupyter's own commands are removed, line numbers stay the same."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence

from .visible_text import escape_hidden

MAX_PARSED = 200_000  # characters; Python needs about 600 times as many bytes to parse a cell

_WRAPPER_MAGIC = re.compile(r"(?:\s*%%(?:time|timeit|capture|prun)\b[^\n]*)+")  # these run the rest of their cell
_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_REST = r"(?:\\\n|[^\n])*"  # the rest of a line, with its continuation lines
_COMMAND = re.compile(
    r"([ \t]*)(?:"
    rf"[%!?]{_REST}"  # %matplotlib inline, !ls, ?print
    rf"|(?P<assigned>[^=\n#\"'(]+=[ \t]*(?:!|%\w){_REST})"  # files = !ls
    rf"|(?:pip3?|conda|mamba)[ \t]+(?:install|uninstall|list)\b{_REST}"  # Jupyter accepts these without their %
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


def plain_python(source: str) -> tuple[str, str | None]:
    """Turn the source of a cell into plain Python; what Python can parse is not changed.

    Returns:
        The code, with `pass` in place of each Jupyter command, and a remark for the student or None.
    """
    if parse(source) is not None or len(source) > MAX_PARSED:
        return source, None
    if _WRAPPER_MAGIC.match(source):
        source = _WRAPPER_MAGIC.sub(lambda lines: "\n" * lines[0].count("\n"), source, count=1)
    if magic := _CELL_MAGIC.match(source):
        name = escape_hidden(magic[1], 20)
        return "", f"The cell that begins with `%%{name}` was left out: only Python is run."
    if indent := re.match(r"\n*([ \t]+)", source):  # Jupyter dedents a cell that is indented as a whole
        source = re.sub(f"^{indent[1]}", "", source, flags=re.MULTILINE)
    return _without_commands(source)


def _without_commands(source: str) -> tuple[str, str | None]:
    """Replace Jupyter commands where a statement may begin: not inside brackets or a multi-line string."""
    code, remark, depth, position = [], None, 0, 0
    at_statement = True
    while position < len(source):
        if at_statement and (command := _COMMAND.match(source, position)):
            code.append(f"{command[1]}pass" + "\n" * command[0].count("\n"))
            if command["assigned"]:
                shown = escape_hidden(command["assigned"].strip(), 40)
                remark = f"`{shown}` is a Jupyter command and was left out."
            position = command.end()
        token = _TOKEN.search(source, position)
        end = token.end() if token else len(source)
        mark = token[0] if token else ""
        code.append(source[position:end])
        position = end
        depth = max(0, depth + (mark in tuple("([{")) - (mark in tuple(")]}")))
        at_statement = mark == "\n" and depth == 0
    return "".join(code), remark


def parse(source: str) -> ast.Module | None:
    """Parse a cell; None if Python cannot, or if the cell is too long."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source) if len(source) <= MAX_PARSED else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # ValueError: a null byte
        return None


def syntax_problem(source: str) -> str | None:
    """Describe why Python cannot compile a cell, with the line; None if it can, or if the cell is too long."""
    if len(source) > MAX_PARSED:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "cell", "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = source.split("\n")
        line = error.lineno or 1
        text = lines[line - 1].strip() if line <= len(lines) else ""
        return f"line {line}, `{escape_hidden(text, 60)}`: {escape_hidden(error.msg, 100)}"
    except (ValueError, RecursionError, MemoryError):
        return "it contains a null byte, or is nested too deeply"
    return None


def defined_names(source: str) -> list[str]:
    """List the functions, classes and variables that a cell defines at its top level, in their order."""
    if parse(source) is None:
        return list(dict.fromkeys(_DEFINITION.findall(source)))
    return list(dict.fromkeys(name for name, _ in definitions(source)))


def definitions(source: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield each name that a cell defines at its top level, with the statement; none if it can't be parsed."""
    module = parse(source)
    for statement in module.body if module else ():
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, statement
            case ast.Assign(targets=targets):
                elements = [element for target in targets for element in _elements(target)]
                yield from ((element.id, statement) for element in elements if isinstance(element, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
                yield name, statement


def _elements(target: ast.expr) -> Sequence[ast.expr]:
    return target.elts if isinstance(target, (ast.Tuple, ast.List)) else (target,)
