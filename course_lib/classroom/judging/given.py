"""What an exercise gives of the course, as text: the classes that its sheet imports, not those that answer it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import course_lib.attention

FOLDER = Path(course_lib.attention.__file__).parent
PACKAGE = "course_lib.attention"
BASIS = ("base", "checks", "core", "kv_cache", "masks")  # what the classes stand on
# Exercise -> (file, class). Everything else of the course is empty in grading.
GIVES = {
    "Wrapper": (("single_head", "SingleHeadAttention"),),
    "to_split": (
        ("single_head", "SingleHeadAttention"),
        ("wrapper", "MultiHeadAttentionWrapper"),
        ("weight_split", "MultiHeadAttention"),
    ),
}


@cache
def given(exercise: str) -> dict[str, str]:
    """Module -> source of what an exercise gives; empty for most."""
    classes = GIVES.get(exercise, ())
    if not classes:
        return {}
    names = [*BASIS, *(file for file, _ in classes)]
    texts = {f"{PACKAGE}.{name}": (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in names}
    texts[PACKAGE] = "".join(f"from .{file} import {name}\n" for file, name in classes)
    return texts
