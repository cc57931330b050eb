"""Parse FILE.py:NAME or package.module:NAME, and import the module that holds the name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from course_lib.command.clone import CourseError

from .errors import because

MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg")  # files in the root of a repository
MOST = 12  # names in one sentence
SCRIPT = "put what only a script needs under the line if __name__ == '__main__'"


class Target(NamedTuple):
    """The file or module as it was typed, the name to examine in it, and the path if it is a file."""

    place: str
    name: str
    path: Path | None


def split(target: str) -> Target:
    """Parse FILE.py:NAME or package.module:NAME without running anything.

    Raises:
        CourseError: the target has neither form, or the file or package does not exist.
    """
    place, _, name = target.rpartition(":")
    is_file = place.endswith(".py")
    if not name.isidentifier() or not (is_file or all(part.isidentifier() for part in place.split("."))):
        raise CourseError(
            f"{target!r} is not FILE.py:NAME, such as my_attention.py:MultiHeadAttention, or package.module:NAME."
        )
    if is_file and not Path(place).is_file():
        raise CourseError(f"there is no file {place}: give its path from {Path.cwd()}.")
    if not is_file:
        sys.path.insert(0, str(Path.cwd()))
        if place.split(".")[0] not in sys.modules and importlib.util.find_spec(place.split(".")[0]) is None:
            raise CourseError(
                f"there is no module {place}: run this in the folder that holds it, or give the path of its file."
            )
    return Target(place, name, Path(place).resolve() if is_file else None)


def load(target: Target) -> ModuleType:
    """Import the module of a target; a file in a package is imported as part of it, and any other file on its own.

    Raises:
        CourseError: it can't be imported, or does not have the name.
    """
    module = _imported(target)
    if not hasattr(module, target.name):
        raise CourseError(f"{target.place} has no {target.name}; it has {callables(module)}.")
    return module


def callables(module: ModuleType) -> str:
    """Return the names in a module that could be examined, those defined in it first."""
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
            if len(errors) == 1 and target.path is not None:
                ways += _other_ways(target.path, error)
        except (Exception, SystemExit) as error:
            hint = "" if isinstance(error, SyntaxError) else SCRIPT
            raise because(f"{target.place} could not be imported", error, hint) from error
    error = next((one for one in errors if not _is_relative(one)), errors[0])
    raise because(f"{target.place} could not be imported", error, _remedy(error)) from error


def _ways(target: Target) -> list[Callable[[], ModuleType]]:
    path = target.path
    if path is None:
        return [partial(importlib.import_module, target.place)]
    folders = [str(folder) for folder in (path.parent, Path.cwd(), _repository(path)) if folder is not None]
    sys.path.extend(folder for folder in folders if folder not in sys.path)  # last: they hide no installed package
    root = _above_packages(path)
    return [partial(_alone, path) if root == path.parent else partial(_in_package, root, path)]


def _other_ways(path: Path, error: ImportError) -> list[Callable[[], ModuleType]]:
    """Return other ways to import a file: as part of folders without __init__.py, or without its package."""
    root = _above_packages(path)
    if _is_relative(error):
        roots = dict.fromkeys([_repository(path), *list(root.parents)[:2]])
        return [partial(_in_package, each, path) for each in roots if each not in (None, root)]
    return [partial(_alone, path)] if root != path.parent else []


def _alone(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a file that Python can import: name a file that ends in .py", name=path.stem)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses and pickle look up the module
    sys.path.insert(0, str(path.parent))  # for imports of files beside it
    spec.loader.exec_module(module)
    return module


def _in_package(root: Path, path: Path) -> ModuleType:
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    sys.path.insert(0, str(root))
    module = importlib.import_module(name)
    if Path(module.__file__ or "").resolve() != path:
        raise ImportError(f"{name} is already the name of a different file, {module.__file__}", name=name)
    return module


def _above_packages(path: Path) -> Path:
    """Return the folder that holds the outermost package of a file."""
    return next(folder for folder in path.parents if not (folder / "__init__.py").is_file())


def _repository(path: Path) -> Path | None:
    return next((folder for folder in path.parents if any((folder / mark).exists() for mark in MARKS)), None)


def _is_relative(error: ImportError) -> bool:
    return "relative import" in str(error)


def _remedy(error: ImportError) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.split(".")[0]
        here = f"{package} is installed, but not this part of it"
        install = f"install {package} for {sys.executable}, or run this with a Python that has it"
        return here if package in sys.modules else install
    return "name it package.module:NAME in the folder that holds its package" if _is_relative(error) else ""
