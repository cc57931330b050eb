"""The course as a student's notebook finds it in grading: what the exercise gives, and nothing else of it."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

COURSE = "course_lib"


class NotInGrading(RuntimeError):
    """Code of the course was used that grading doesn't give."""


class Absent:
    """Stands for a name of the course: it can be imported and passed around; using it says that it isn't there."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise NotInGrading(f"`{self._name}` of the course is not there in grading: write it yourself")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self()

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return self()

    def __iter__(self) -> Any:
        return self()


class Finder(MetaPathFinder, Loader):
    """Finds the modules that an exercise gives, as text, and an empty one for everything else of the course."""

    def __init__(self, given: dict[str, str], silent: frozenset[str], real: bool) -> None:
        self.given, self.silent, self.real = given, silent, real

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        known = name in self.given or name in self.silent
        if name.split(".")[0] != COURSE or (self.real and not known):
            return None
        is_package = name not in self.given or any(other.startswith(f"{name}.") for other in self.given)
        return ModuleSpec(name, self, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name in self.given:
            exec(compile(self.given[name], f"<{name}>", "exec"), module.__dict__)
        if name in self.silent:
            module.__getattr__ = _silent
        elif not self.real:
            module.__getattr__ = lambda attribute: _absent(name, attribute)


def _absent(module: str, attribute: str) -> Absent:
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return Absent(f"{module}.{attribute}")


class Unchecked:
    """Stands for `check`, `progress`, `display` and `get_ipython`: whatever is asked of it, nothing happens."""

    def __getattr__(self, name: str) -> Unchecked:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> Unchecked:
        return self


def _silent(attribute: str) -> Any:
    if attribute.startswith("__"):
        raise AttributeError(attribute)
    return Unchecked()


def hide_course(given: dict[str, str], real: bool) -> None:
    """Put the finder before all others. `check` and `progress` do nothing: the checks are made elsewhere."""
    for name in [
        name for name in sys.modules if name == f"{COURSE}.exercises" or (not real and name.split(".")[0] == COURSE)
    ]:
        del sys.modules[name]
    sys.meta_path.insert(0, Finder(given, frozenset({f"{COURSE}.exercises"}), real))
