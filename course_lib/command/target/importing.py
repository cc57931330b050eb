"""From a target to the imported module that holds its name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

from course_lib.command.root import CourseError

from .errors import because
from .naming import Target, search_last

MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")  # what stands in the root of a repository
MOST = 12  # names in one sentence
SCRIPT = "put what only a script needs under the line if __name__ == '__main__'"


def load(target: Target) -> ModuleType:
    """Import the module of a target: a file in a package as a part of that package, any other file by itself.

    Raises:
        CourseError: it can't be imported, or does not have the name.
    """
    module = _imported(target)
    if not hasattr(module, target.name):
        raise CourseError(f"{target.place} has no {target.name}; it has {callables(module)}.")
    return module


def callables(module: ModuleType) -> str:
    """The names in a module that could be examined, its own first."""
    names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
    names.sort(key=lambda name: getattr(vars(module)[name], "__module__", None) != module.__name__)
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more or "nothing that can be called"


def _imported(target: Target) -> ModuleType:
    importlib.invalidate_caches()
    ways = _ways(target)
    errors: list[ImportError] = []
    while ways:
        try:
            return ways.pop(0)()
        except ImportError as error:
            errors.append(error)
            if len(errors) == 1:
                ways += _other_ways(target, error)
        except (Exception, SystemExit) as error:
            hint = "" if isinstance(error, SyntaxError) else SCRIPT
            raise because(f"{target.place} could not be imported", error, hint) from error
    error = next((one for one in errors if not _is_relative(one)), errors[0])
    raise because(f"{target.place} could not be imported", error, _remedy(error)) from error


def _ways(target: Target) -> list[Callable[[], ModuleType]]:
    path = target.path
    if path is None:
        return [partial(importlib.import_module, target.place)]
    root = _above_packages(path)
    search_last(path.parent, Path.cwd(), _repository(path))
    return [partial(_alone, path) if root == path.parent else partial(_in_package, root, path)]


def _other_ways(target: Target, error: ImportError) -> Iterator[Callable[[], ModuleType]]:
    """How else to import a file: from folders without __init__.py as a package, or without its package."""
    if target.path is None:
        return
    root = _above_packages(target.path)
    if _is_relative(error):
        roots = [_repository(target.path), *list(root.parents)[:2]]
        yield from (partial(_in_package, one, target.path) for one in dict.fromkeys(roots) if one not in (None, root))
    elif root != target.path.parent:
        yield partial(_alone, target.path)


def _alone(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickles look their module up
    sys.path.insert(0, str(path.parent))  # what it imports from beside it
    spec.loader.exec_module(module)
    return module


def _in_package(root: Path, path: Path) -> ModuleType:
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    sys.path.insert(0, str(root))
    module = importlib.import_module(name)
    if Path(module.__file__ or "").resolve() != path:
        raise ImportError(f"{name} is already another file, {module.__file__}", name=name)
    return module


def _above_packages(path: Path) -> Path:
    """The folder that holds the outermost package of a file."""
    return next(folder for folder in path.parents if not (folder / "__init__.py").is_file())


def _repository(path: Path) -> Path | None:
    return next((folder for folder in path.parents if any((folder / mark).exists() for mark in MARKS)), None)


def _is_relative(error: ImportError) -> bool:
    return "relative import" in str(error)


def _remedy(error: ImportError) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing:
        package = missing.split(".")[0]
        here = f"{package} is there, but not this part of it"
        return here if package in sys.modules else f"install {package} for {sys.executable}, or run this beside it"
    return "name it package.module:NAME in the folder that holds its package" if _is_relative(error) else ""
