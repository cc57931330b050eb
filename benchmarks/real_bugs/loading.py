"""Third-party code is imported without the rest of its package and without what attention does not need."""

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def importer(folder: Path, support: Path) -> Callable[[str], Any]:
    """Return a function that imports a module of the code in `folder` by its name, or a file by its path.

    It changes `sys.path` and `sys.modules`: each side of a case is measured in a process of its own.

    Args:
        folder: the code, as `sources.fetched` returns it.
        support: the pinned packages that several cases need.
    """
    sys.path[:0] = [str(folder), str(support)]

    def import_module(name: str) -> Any:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(Path(name).stem, folder / name)
        if spec is None or spec.loader is None:
            raise ImportError(f"{name} can't be loaded.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        return module

    return import_module


def bare(*packages: str) -> None:
    """Let modules of packages be imported without running the packages' `__init__`, which wants what is not needed."""
    for name in packages:
        module = ModuleType(name)
        parent, _, last = name.rpartition(".")
        places = sys.modules[parent].__path__ if parent else sys.path
        module.__path__ = [str(Path(folder) / last) for folder in places if (Path(folder) / last).is_dir()]
        module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module


def stand_in(name: str, **contents: Any) -> None:
    """Install a stub with these attributes in place of a module that is not installed."""
    parts = name.split(".")
    for stop in range(1, len(parts) + 1):
        sys.modules.setdefault(".".join(parts[:stop]), ModuleType(".".join(parts[:stop])))
    module = sys.modules[name]
    for key, value in contents.items():
        setattr(module, key, value)
