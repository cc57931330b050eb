"""The source of what an exercise provides of the course: the classes that its notebook imports."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import course_lib.attention

FOLDER = Path(course_lib.attention.__file__).parent
PACKAGE = "course_lib.attention"
FOUNDATION = ("base", "cache", "checks", "core", "kv_cache", "masks", "sinks")  # the modules that the classes need
# Exercise -> (module, class). Everything else of the course is a stub in grading.
PROVIDED_CLASSES = {
    "Wrapper": (("single_head", "SingleHeadAttention"),),
    "to_split": (
        ("single_head", "SingleHeadAttention"),
        ("wrapper", "MultiHeadAttentionWrapper"),
        ("weight_split", "MultiHeadAttention"),
    ),
}


@cache
def provided_code(exercise: str) -> dict[str, str]:
    """Map each module that an exercise provides to its source; empty for most exercises."""
    classes = PROVIDED_CLASSES.get(exercise, ())
    if not classes:
        return {}
    names = [*FOUNDATION, *(module for module, _ in classes)]
    sources = {f"{PACKAGE}.{name}": (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in names}
    sources[PACKAGE] = "".join(f"from .{module} import {name}\n" for module, name in classes)
    return sources
