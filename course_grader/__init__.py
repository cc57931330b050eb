"""For the teacher: release exercises to a class, and grade what the class submits.

Each name is loaded when it is first used, so that `course` can list its subcommands without the packages of the extra
`teach`, and say what is missing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .grading import GradingPolicy
    from .manifest import Release, released_exercises
    from .marks import Mark, StudentResult
    from .pipeline import grade_release
    from .student_version import FOLDED, KERNELSPEC, kept_metadata, student_notebook
    from .worker_config import WorkerConfig

__all__ = [
    "FOLDED", "KERNELSPEC", "GradingPolicy", "Mark", "Release", "StudentResult", "WorkerConfig", "grade_release",
    "kept_metadata", "released_exercises", "student_notebook",
]  # fmt: skip

# The cheapest to import first.
_MODULES = ("student_version", "manifest", "marks", "grading", "worker_config", "pipeline")


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        names = vars(importlib.import_module(f".{module}", __name__))
        if name in names:
            return names[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
