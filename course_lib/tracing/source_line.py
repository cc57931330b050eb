"""Source lines that a message can point at, and whose they are: the author's, PyTorch's or the course's."""

from __future__ import annotations

import ast
import linecache
import os
import re
import traceback
from dis import opname
from functools import cache
from inspect import CO_VARARGS, CO_VARKEYWORDS
from pathlib import Path
from types import CodeType

import torch

from .source import end_of, read_source

CELL = re.compile(r"<ipython-input-|ipykernel_\d+")  # how IPython and its kernels name the code of a cell
COURSE_FOLDER = Path(__file__).resolve().parents[1]
SITE_PACKAGES = Path(torch.__file__).parent.parent
# An operation that runs in these files is attributed to the author's line that called them.
TOOLS = [SITE_PACKAGES / name for name in ("torch", "einops", "opt_einsum")]
TOOLS += [COURSE_FOLDER / package for package in ("tracing", "recorder", "diagnosis", "command")]
# PyTorch in whichever environment, and einops wherever it lies, because repositories bring copies of it.
INSTALLED = re.compile(
    r"[/\\\\](site|dist)-packages[/\\\\](torch|einops|opt_einsum)[/\\\\]"
    r"|[/\\\\]einops[/\\\\](einops|packing|parsing|array_api|_backends|_torch_specific|layers[/\\\\]\w+)\.py$"
)
FOREIGN = ("<frozen", *(f"{folder}{os.sep}" for folder in TOOLS))


def short_name(file: str, line: int) -> str:
    """Return "name.py:12", or "cell:3" in a notebook, because cells have no names."""
    return f"cell:{line}" if CELL.search(file) else f"{Path(file).name}:{line}"


class SourceLine(str):
    """A source line, written as "file.py:12" or "cell:3", with its text.

    Attributes:
        text: the text of the line without its indentation.
        file, line: Python's file name and line number; lines count from 1.
    """

    text: str
    file: str
    line: int

    def __new__(cls, file: str, line: int) -> SourceLine:
        source_line = super().__new__(cls, short_name(file, line))
        source_line.text = linecache.getline(file, line).strip()
        source_line.file, source_line.line = file, line
        return source_line

    def __reduce__(self) -> tuple[type[SourceLine], tuple[str, int]]:
        """Pickle as file and line."""
        return type(self), (self.file, self.line)

    @property
    def path(self) -> str | None:
        """The file, relative to the current folder if it lies there; None for a notebook's cell."""
        path = Path(self.file)
        if not path.is_file() or CELL.search(self.file):
            return None
        path = path.resolve()
        return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)

    @property
    def column(self) -> int | None:
        """Where the text begins, counted from 1."""
        return linecache.getline(self.file, self.line).find(self.text) + 1 if self.text else None

    @property
    def end_line(self) -> int | None:
        """The last line of the statement that the line belongs to; the line itself if it begins a block."""
        around = [node for node in read_source(self.file).statements if node.lineno <= self.line <= end_of(node)[0]]
        inner = max(around, key=lambda node: node.lineno, default=None)
        return None if inner is None else self.line if hasattr(inner, "body") else inner.end_lineno


@cache
def is_foreign(file: str) -> bool:
    """Return whether the lines of a file belong to PyTorch, einops or opt_einsum, or to what watches the code."""
    return file.startswith(FOREIGN) or INSTALLED.search(file) is not None


def error_message(error: BaseException) -> str:
    """Return the type and the first line of an error; of TorchScript, which puts a traceback before it, the last."""
    lines = str(error).strip().splitlines()
    message = [lines[-1].removeprefix("RuntimeError: ")] if "TorchScript interpreter" in str(error) else lines[:1]
    return ": ".join([type(error).__name__, *message])


def set_in_script(error: BaseException) -> str:
    """Return the remedy for a name that its file sets only where it is run as a script; "" for other errors."""
    line = last_line(error) if isinstance(error, NameError) else None
    try:
        tree = ast.parse("".join(linecache.getlines(line.file))) if line is not None else ast.Module([], [])
    except SyntaxError:
        return ""
    scripts = (node for node in tree.body if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))
    names = (node for script in scripts for node in ast.walk(script) if isinstance(node, ast.Name))
    name = getattr(error, "name", None)
    if not any(node.id == name and isinstance(node.ctx, ast.Store) for node in names):
        return ""
    return f"set `{name}` above `if __name__ == '__main__'`, under which only a script has it, or make it an argument"


def last_line(error: BaseException, foreign: tuple[str, ...] = ()) -> SourceLine | None:
    """Return the innermost line of the author's code that an error passed through.

    Files whose names begin with one of `foreign` are not the author's, besides PyTorch's and the course's.
    """
    frames = [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    frames = [pair for pair in frames if not pair[0].co_filename.startswith(foreign)]
    frames = [pair for pair in frames if not is_foreign(pair[0].co_filename)]
    inner = [pair for pair in frames if not passes_on(pair[0])] or frames
    return SourceLine(inner[-1][0].co_filename, inner[-1][1]) if inner else None


def is_refused(error: BaseException) -> bool:
    """Return whether the author's code raised an error by a statement of its own, as for what it does not take."""
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is None:
        return False
    code = step.tb_frame.f_code
    return not is_foreign(code.co_filename) and opname[code.co_code[step.tb_lasti]] == "RAISE_VARARGS"


def passes_on(code: CodeType) -> bool:
    """Return whether a function takes any arguments, as the wrappers of decorators and of checkpointing do."""
    passes = code.co_flags & CO_VARARGS and code.co_flags & CO_VARKEYWORDS
    return bool(passes) and code.co_argcount <= 1 and code.co_name != "forward"
