"""`solution_with(name, edit)` returns the course's own answer to an exercise with a mistake edited into it."""

import inspect
from typing import Any

from course_lib.mutations import built, edited

from .checking import exercise_named


def solution_with(name: str, edit: str) -> Any:
    """Return the course's answer to an exercise after an edit of its source; the answer itself stays as it is.

    Args:
        name: Name of the exercise, such as "MyHead".
        edit: "old => new", or several of them with " && " between; every occurrence of old is replaced.

    Raises:
        ValueError: There is no exercise of that name, the edit has no arrow, or the source doesn't have its old text.

    Example:
        >>> wrong = solution_with("arithmetic_intensity", "2 * 2 => 2")  # half the operations
        >>> round(wrong(4096, 4096, 32, 32, 64, 2))
        1024
    """
    solution = getattr(exercise_named(name), "solution", None)
    if solution is None:
        raise ValueError(f"exercise {name!r} has no code as its answer: give one whose answer is a class or function.")
    return built(edited(inspect.getsource(solution), edit), solution)
