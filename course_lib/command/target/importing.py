"""Import the module that holds what is examined, as far as the examined name needs it."""

import ast
import importlib
import importlib.util
import sys
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType

from course_lib.command.clone import CourseError

from .dependencies import does_work
from .errors import COMMAND, INSTALLED, because
from .modules import import_in_package, locations, look_first_in, new_module
from .notebook import cells
from .partial_import import PartialFinder, run_part
from .repository import above_packages, holder_of, repository_of
from .stand_ins import StandIns
from .target import Target

MOST_TRIES = 60  # each adds a folder, a stand-in or a file that is run in part
SCRIPT = "put what only a script needs under the line if __name__ == '__main__'"


class Importer:
    """Imports the module of one target, and learns from each error what to try next.

    Attributes:
        stand_ins: of packages that are not installed.
        parts: the files that are run in part, because they fail as a whole or do work when they are imported.
    """

    def __init__(self, target: Target, names: set[str]) -> None:
        self.target, self.names = target, {target.name, *names}
        self.stand_ins = StandIns()
        self.parts = PartialFinder(self.stand_ins)
        self.before = set(sys.modules)
        self.errors: list[BaseException] = []
        self.roots = [] if target.path is None else [above_packages(target.path)]
        self.other_roots = [] if target.path is None else _other_roots(target.path)
        self.first = None if target.path is None else target.path.parent  # looked in first by a file on its own

    def module(self) -> ModuleType:
        """Return the module.

        Raises:
            CourseError: it can't be imported.
        """
        self._prepare()
        while True:
            try:
                return self._way()()
            except CourseError:
                raise
            except (Exception, SystemExit) as error:
                self.errors.append(error)
                if len(self.errors) == MOST_TRIES or not self._learns(error):
                    raise self.refusal() from error
                self._forget()

    def refusal(self) -> CourseError:
        """Return the error to report: the last one, or an earlier one that says more."""
        error = next((failure for failure in reversed(self.errors) if not _is_relative(failure)), self.errors[-1])
        return because(f"{self.target.source} could not be imported", error, _remedy(error))

    def _prepare(self) -> None:
        warnings.simplefilter("ignore", SyntaxWarning)  # each try would show those of the file again
        importlib.invalidate_caches()
        self.stand_ins.install()
        self.parts.install()
        path = self.target.path
        if path is None:
            return
        root = repository_of(path)
        folders = [path.parent, Path.cwd(), *([root, root / "src"] if root else [])]
        # At the end, where they hide nothing.
        sys.path.extend(str(folder) for folder in folders if folder.is_dir() and str(folder) not in sys.path)
        if path.suffix == ".py" and does_work(_parsed(path)):
            self.parts.files[path] = self.names

    def _way(self) -> Callable[[], ModuleType]:
        path = self.target.path
        if path is None:
            return partial(importlib.import_module, self.target.source)
        if path.suffix == ".ipynb":
            return partial(self._notebook, path)
        if self.roots[-1] == path.parent:
            return partial(self._alone, path)
        return partial(import_in_package, self.roots[-1], path)

    def _alone(self, path: Path) -> ModuleType:
        module = new_module(path)
        look_first_in(self.first or path.parent)  # for imports of files beside it
        if path in self.parts.files:
            run_part([(str(path), _parsed(path))], module, self.parts.files[path], self.stand_ins)
        else:
            exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), vars(module))
        return module

    def _notebook(self, path: Path) -> ModuleType:
        module = new_module(path)
        run_part(cells(path), module, self.names, self.stand_ins)
        return module

    def _learns(self, error: BaseException) -> bool:
        """Return whether the error leaves something else to try."""
        if isinstance(error, ImportError) and "relative import" in str(error):
            if not self.other_roots:
                return False
            self.roots.append(self.other_roots.pop(0))
            return True
        if isinstance(error, ModuleNotFoundError) and error.name:
            return self._finds(error.name)
        file = _failing_file(error)
        if file is None or file in self.parts.files or (isinstance(error, SyntaxError) and file == self.target.path):
            return False
        self.parts.files[file] = self.names if file == self.target.path else None
        return True

    def _finds(self, name: str) -> bool:
        """Put the folder of a module on the path if the repository holds it; otherwise stand in for it."""
        package = name.split(".")[0]
        if f"{self.target.source}.".startswith(f"{name}.") or name in self.stand_ins.names:
            return False
        if self._is_hidden(name):
            return True
        holder = None if self.target.path is None else holder_of(package, self.target.path)
        if holder is not None and str(holder) not in sys.path:
            sys.path.append(str(holder))
            return True
        self.stand_ins.names.add(name if package in sys.modules or holder else package)
        return True

    def _is_hidden(self, name: str) -> bool:
        """Look in the folder that holds a package, if a file beside the target has the name of that package.

        The folder of that file is left out, because a file of any folder comes before a package without __init__.py.
        """
        path = self.target.path
        if path is None or not (path.parent / f"{name.split('.')[0]}.py").is_file():
            return False
        before, self.first = self.first, holder_of(name, path)
        if self.first in (None, before):
            return False
        sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != path.parent]
        return True

    def _forget(self) -> None:
        """Drop the repository's modules that the last try imported: some of them are unfinished."""
        path = self.target.path
        root = None if path is None else str(repository_of(path) or path.parent)
        # All are found before any is dropped: without its parent a package without __init__.py can't say where it is.
        for name in [loaded for loaded in sys.modules if loaded not in self.before and self._is_ours(loaded, root)]:
            del sys.modules[name]

    def _is_ours(self, name: str, root: str | None) -> bool:
        if root is None:
            return name.split(".")[0] == self.target.source.split(".")[0]
        where = locations(name)
        return any(path.startswith(root) for path in where) and not any(path.startswith(INSTALLED) for path in where)


def _parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file; an empty one if it is not Python, which its import will say."""
    try:
        return ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _failing_file(error: BaseException) -> Path | None:
    """Return the innermost file that raised while it was imported, unless it is installed or the course's."""
    if isinstance(error, SyntaxError) and error.filename:
        return Path(error.filename).resolve()
    foreign = (*INSTALLED, COMMAND, "<")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
    files = [frame.filename for frame in frames if not frame.filename.startswith(foreign)]
    return Path(files[-1]).resolve() if files else None


def _other_roots(path: Path) -> list[Path]:
    """Return the folders from which the file may be imported as part of packages without __init__.py."""
    root = above_packages(path)
    roots = dict.fromkeys([repository_of(path), *list(root.parents)[:2]])
    return [folder for folder in roots if folder not in (None, root)]


def _is_relative(error: BaseException) -> bool:
    return "relative import" in str(error)


def _remedy(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        file = getattr(sys.modules.get(package), "__file__", None) or ""
        if "is not a package" in str(error) and not file.startswith(INSTALLED):
            return f"{file} hides the package {package}: give that file another name"
        if package in sys.modules:
            return f"{package} is installed, but not this part of it"
        return f"install {package} for {sys.executable}, or run this with a Python that has it"
    if _is_relative(error):
        return "name it package.module:NAME in the folder that holds its package"
    if "already the name" in str(error):
        return "rename that folder, or copy the file out of its package"
    return "mend that line first" if isinstance(error, SyntaxError) else SCRIPT
