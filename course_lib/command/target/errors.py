"""What the examined file raised, as one sentence with the line of the file and the way out."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from course_lib.command.root import CourseError

COMMAND = str(Path(__file__).resolve().parents[1])
INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
NO_GPU = "make the device an argument, or give --device cpu to have it built there all the same"


def because(what: str, error: BaseException, remedy: str = "") -> CourseError:
    """Say what failed, why, in which line and what to do.

    Args:
        what: failed, as the beginning of a sentence.
        error: what was raised.
        remedy: what to do about it.

    Returns:
        CourseError, to be raised.
    """
    from course_lib.diagnosis.failures import asks_for_gpu
    from course_lib.diagnosis.lines import OURS, last_line

    line = None if isinstance(error, SyntaxError) else last_line(error, (*OURS, *INSTALLED, COMMAND, "<"))
    where = f" ({line}: {line.text})" if line and line.text else f" ({line})" if line else ""
    if asks_for_gpu(error):
        what, remedy = f"{line or what} needs a GPU, and this machine has none", NO_GPU
        where = f" ({line.text})" if line and line.text else ""
        return CourseError(f"{what}{where}: {remedy}.")
    return CourseError(f"{what}: {said(error)}{where}{f'; {remedy}' if remedy else ''}.")


def said(error: BaseException) -> str:
    """What was raised, in one line: some errors of PyTorch have twenty."""
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]]).rstrip(".: ")
