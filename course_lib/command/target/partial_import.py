"""Run a file or notebook statement by statement, so that one that fails does not keep the others from being run."""

import __future__

import ast
import functools
import importlib.machinery
import linecache
import operator
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from .dependencies import bound, names_read, needed
from .stand_ins import StandIn, StandIns

LEFT_OUT = "__left_out__"  # in the namespace of a module that was run in part


class LeftOut(NamedTuple):
    """A statement that failed: the names it would have bound, its line, the error, and whether the target reads one."""

    names: set[str]
    line: str
    error: BaseException
    is_read: bool

    def __str__(self) -> str:
        message = str(self.error).splitlines()[:1]
        return f"{self.line} ({': '.join([type(self.error).__name__, *message])})"


def run_part(
    parts: Iterable[tuple[str, ast.Module]], module: ModuleType, names: set[str] | None, stand_ins: StandIns
) -> None:
    """Run what the names need, or with None everything, of parsed (file name, text) pairs in a module.

    Raises:
        ModuleNotFoundError: a package is missing that nothing stands in for yet.
        Exception: of the definition of one of the names.
    """
    of_file = [(statement, file) for file, tree in parts for statement in tree.body]
    files = {id(statement): file for statement, file in of_file}
    statements = [statement for statement, _ in of_file]
    flags = _future_flags(statements)
    vars(module)[LEFT_OUT] = []
    read = names_read(statements, names or set())
    for statement in statements if names is None else needed(statements, names):
        file = files[id(statement)]
        try:
            _run(statement, file, flags, module)
        except (Exception, SystemExit) as error:
            if isinstance(statement, ast.ImportFrom) and type(error) is ImportError:  # the module lacks a name
                _import_what_is_there(statement, file, module, stand_ins)
            elif isinstance(error, ModuleNotFoundError) or getattr(statement, "name", None) in (names or ()):
                raise
            else:
                text = linecache.getline(file, statement.lineno).strip()
                line = f"{Path(file).name}:{statement.lineno}: {text}"
                vars(module)[LEFT_OUT].append(LeftOut(lost := bound(statement), line, error, bool(lost & read)))


def _run(statement: ast.stmt, file: str, flags: int, module: ModuleType) -> None:
    exec(compile(ast.Module([statement], []), file, "exec", flags, dont_inherit=True), vars(module))


def _future_flags(statements: Iterable[ast.stmt]) -> int:
    """Return the compiler flags of `from __future__ import ...`."""
    imports = [each for each in statements if isinstance(each, ast.ImportFrom) and each.module == "__future__"]
    features = [getattr(__future__, alias.name) for each in imports for alias in each.names]
    return functools.reduce(operator.or_, [feature.compiler_flag for feature in features], 0)


def _import_what_is_there(statement: ast.ImportFrom, file: str, module: ModuleType, stand_ins: StandIns) -> None:
    """Import the names of a statement separately, and stand in for the missing ones."""
    for alias in statement.names:
        single_import = ast.copy_location(ast.ImportFrom(statement.module, [alias], statement.level), statement)
        try:
            _run(single_import, file, 0, module)
        except ImportError:
            name = f"{'.' * statement.level}{statement.module or ''}.{alias.name}"
            stand_ins.single.add(name)
            setattr(module, alias.asname or alias.name, StandIn(name))


class PartialFinder:
    """Finds files that are to be run in part, before anything else finds them.

    Attributes:
        files: file -> the names that are needed of it, or None for everything that can be run.
    """

    def __init__(self, stand_ins: StandIns) -> None:
        self.files: dict[Path, set[str] | None] = {}
        self.stand_ins = stand_ins

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Return the usual specification with another loader; called by the import system."""
        if not self.files:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or (file := Path(spec.origin).resolve()) not in self.files:
            return None
        spec.loader = _PartialLoader(name, str(file), self.files[file], self.stand_ins)
        return spec

    def install(self) -> None:
        """Begin to answer, before every other finder; those of earlier files are forgotten."""
        sys.meta_path[:] = [self, *(finder for finder in sys.meta_path if not isinstance(finder, PartialFinder))]


class _PartialLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, names: set[str] | None, stand_ins: StandIns) -> None:
        super().__init__(name, path)
        self.names, self.stand_ins = names, stand_ins

    def exec_module(self, module: ModuleType) -> None:
        tree = ast.parse(Path(self.path).read_bytes(), self.path)
        run_part([(self.path, tree)], module, self.names, self.stand_ins)


def left_out(module: ModuleType) -> Iterator[LeftOut]:
    """Yield what was left out of a module because it failed."""
    yield from vars(module).get(LEFT_OUT, ())
