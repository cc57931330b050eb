"""Describe what the examined file raised, in one sentence with its source line and the remedy."""

import sysconfig
from pathlib import Path

from course_lib.command.clone import CourseError

COMMAND = str(Path(__file__).resolve().parents[1])
INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
NO_GPU = "make the device an argument, or give --device cpu to have it built there all the same"


def because(what: str, error: BaseException, remedy: str = "") -> CourseError:
    """Return an error that says what failed (the beginning of a sentence), why, on which line, and what to do."""
    from course_lib.diagnosis import asks_for_gpu
    from course_lib.tracing import last_line

    line = None if isinstance(error, SyntaxError) else last_line(error, (*INSTALLED, COMMAND, "<"))
    where = f" ({line}: {line.text})" if line and line.text else f" ({line})" if line else ""
    if asks_for_gpu(error):
        what, remedy = f"{line or what} needs a GPU, and this machine has none", NO_GPU
        where = f" ({line.text})" if line and line.text else ""
        return CourseError(f"{what}{where}: {remedy}.")
    # Only the first line of the error's text, because some errors of PyTorch have twenty.
    message = ": ".join([type(error).__name__, *str(error).splitlines()[:1]]).rstrip(".: ")
    return CourseError(f"{what}: {message}{where}{f'; {remedy}' if remedy else ''}.")
