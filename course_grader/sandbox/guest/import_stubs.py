"""Give a notebook in grading the parts of the course that its exercise provides, and stubs for everything else."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

PACKAGES = ("course_lib", "course_grader")
SILENT = "course_lib.exercises"  # `check` and `progress` do nothing here: the grader checks elsewhere


class NotInGrading(RuntimeError):
    """A notebook used code of the course that grading does not provide."""


class MissingName:
    """A placeholder for a name of the course: it can be imported and passed on, but using it raises NotInGrading."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise NotInGrading(f"`{self._name}` of the course is not there in grading: write it yourself")

    __mro_entries__ = __iter__ = __call__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self()


class DoNothing:
    """A placeholder for `check`, `progress`, `display` and `get_ipython`, on which every operation does nothing."""

    def __getattr__(self, name: str) -> DoNothing:
        if name.startswith("_"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: Any, **__: Any) -> DoNothing:
        return self


class StubFinder(MetaPathFinder, Loader):
    """Finds the modules that an exercise provides, as source, and a stub for every other module of the course.

    If the course is exposed, all other modules are the course's own.
    """

    def __init__(self, provided: dict[str, str], expose_course: bool) -> None:
        self.provided, self.expose_course = provided, expose_course

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = fullname in self.provided or fullname == SILENT
        if fullname.split(".")[0] not in PACKAGES or (self.expose_course and not known):
            return None
        has_children = any(other.startswith(f"{fullname}.") for other in self.provided)
        return ModuleSpec(fullname, self, is_package=fullname not in self.provided or has_children)

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        module_name = module.__name__
        if module_name in self.provided:
            exec(compile(self.provided[module_name], f"<{module_name}>", "exec", dont_inherit=True), module.__dict__)

        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            return DoNothing() if module_name == SILENT else MissingName(f"{module_name}.{name}")

        if module_name == SILENT or not self.expose_course:
            module.__getattr__ = missing


def install_import_stubs(provided: dict[str, str], expose_course: bool) -> None:
    """Put a `StubFinder` before all other finders, and forget the modules that it replaces."""
    for name in list(sys.modules):
        if name == SILENT or (not expose_course and name.split(".")[0] in PACKAGES):
            del sys.modules[name]
    sys.meta_path.insert(0, StubFinder(provided, expose_course))
