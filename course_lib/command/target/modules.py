"""Make modules of files: of one on its own, or of one in its package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from .errors import INSTALLED


def look_first_in(folder: Path) -> None:
    """Put a folder before all others in which imports are looked up."""
    if sys.path[0] != str(folder):
        sys.path.insert(0, str(folder))


def new_module(path: Path) -> ModuleType:
    """Return an empty module for a file on its own, which dataclasses and pickle find by its name."""
    name = "".join(letter if letter.isalnum() else "_" for letter in path.stem)
    present = sys.modules.get(name)
    if name in sys.stdlib_module_names or str(getattr(present, "__file__", "")).startswith(INSTALLED):
        name = f"{name}_examined"  # it must not hide the module of that name
    module = ModuleType(name)
    module.__file__, module.__package__ = str(path), ""
    sys.modules[name] = module
    return module


def import_in_package(root: Path, path: Path) -> ModuleType:
    """Import a file as a part of the packages between a folder and the file.

    Raises:
        ImportError: a module of that name, which can't be dropped, belongs to another file.
    """
    name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    look_first_in(root)
    _make_room(name, path)
    module = importlib.import_module(name)
    if Path(module.__file__ or "").resolve() != path:
        raise ImportError(f"{name} is already the name of a different file, {module.__file__}", name=name)
    return module


def _make_room(name: str, path: Path) -> None:
    """Drop the modules of a package of the same name that belong to an earlier target."""
    package = name.split(".")[0]
    where = locations(package)
    ours = any(path.is_relative_to(Path(location).parent) for location in where)
    if where and not ours and not any(location.startswith(INSTALLED) for location in where):
        for other in [name for name in sys.modules if name.split(".")[0] == package]:
            del sys.modules[other]


def locations(name: str) -> list[str]:
    """Return the file and the folders of an imported module."""
    module = sys.modules.get(name)
    try:
        return [str(path) for path in (getattr(module, "__file__", None), *getattr(module, "__path__", ())) if path]
    except Exception:  # a package whose parent is gone
        return []
