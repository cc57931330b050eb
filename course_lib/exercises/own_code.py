"""Keep the learner's own code that passed in one lesson, so that a later lesson goes on with it."""

import math
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.atomic_file import write_text
from course_lib.tracing import text_of

from .catalogue import ALL
from .exercise import Exercise
from .input_generator import InputGenerator
from .local_answer import LocalAnswer
from .progress_location import progress_path
from .verdict import NOT_WRITTEN, PASSED, SIGNS

FOLDER = "my_code"  # in the learner's workspace; a file for each answer
SEED = 0  # of the inputs on which kept code is judged again


def keep(name: str, answer: Any) -> str | None:
    """Store the source of an answer that passed, and return its file's place in the workspace.

    Outside of a workspace, or if it can't be written, nothing is stored.
    """
    file, source = _file(name), text_of(answer) if isinstance(answer, (FunctionType, type)) else None
    if file is None or source is None:
        return None
    try:
        file.parent.mkdir(exist_ok=True)
        write_text(file, source + "\n")
    except OSError:
        return None
    return f"{FOLDER}/{file.name}"


def from_earlier(name: str) -> Any:
    """Return what the learner wrote in an earlier lesson if it was kept and still passes, else the course's version.

    One line says which of the two it is.

    Args:
        name: name of the function or class, such as "MyHead".

    Raises:
        ValueError: no lesson asks for it.

    Example:
        >>> from_earlier("scaled_scores").__name__
        … scaled_scores: the course's version; in my_course, yours of lesson 01.
        'scaled_scores'
    """
    exercise = ALL.get(name)
    if exercise is None:
        raise ValueError(f"name is {name!r}, but no lesson asks for a function or class of that name.")
    own = _own(exercise)
    if own is not None:
        print(f"{SIGNS[PASSED]} {name}: your own code from lesson {exercise.lesson}.")
        return own
    print(f"{SIGNS[NOT_WRITTEN]} {name}: the course's version; in my_course, yours of lesson {exercise.lesson}.")
    return exercise.solution


def _own(exercise: Exercise) -> Any:
    """Run the kept source; None if there is none, it fails, or it no longer passes."""
    file = _file(exercise.name)
    if file is None or not file.is_file():
        return None
    try:
        source = file.read_text(encoding="utf-8")
        code = compile(source, str(file), "exec")
        namespace: dict[str, Any] = {"__name__": "__main__", "torch": torch, "nn": nn, "F": F, "math": math}
        for other in ALL.values():  # a class may use one of an earlier lesson
            if other.name in source and other.name != exercise.name:
                namespace[other.name] = _own(other) or other.solution
        exec(code, namespace)
        answer = namespace[exercise.name]
    except Exception:  # whatever the kept file does, the lesson goes on
        return None
    return answer if exercise.judge(LocalAnswer(answer), InputGenerator(SEED)).passed else None


def _file(name: str) -> Path | None:
    progress = progress_path()
    return progress.parent / FOLDER / f"{name}.py" if progress else None
