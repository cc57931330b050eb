"""Count attempts at exercises in the kernel, and keep the results in a file."""

from datetime import UTC, datetime
from pathlib import Path

from .progress_file import ExerciseStatus, read, write
from .progress_location import progress_path

_KERNEL: dict[str, ExerciseStatus] = {}  # what this kernel adds to the file, or everything if there is no file


def count_attempt(name: str, passed: bool) -> None:
    """Count a check of new code."""
    when = datetime.now(UTC).isoformat(timespec="seconds") if passed else None
    _KERNEL[name] = _KERNEL.get(name, ExerciseStatus()).followed_by(ExerciseStatus(passed, 1, when))


def statuses() -> tuple[dict[str, ExerciseStatus], str]:
    """Update the file and read it.

    Returns:
        The status of each exercise by name, and one sentence about what is wrong with the file, or "".
    """
    path, warning = progress_path(), save()  # save first, because an earlier write may have failed
    if path is None:
        return dict(_KERNEL), ""
    try:
        stored, damaged = read(path)
    except OSError as error:
        return dict(_KERNEL), _not_kept(path, error)
    if damaged and not warning:
        warning = f"{path} is damaged: what can be read of it is shown."
    return _with_kernel(stored), warning


def save() -> str:
    """Update the file; without a file, or with nothing new, do nothing.

    Returns:
        One sentence if the file couldn't be written, or was damaged; else "".
    """
    path = progress_path()
    if path is None or not _KERNEL:
        return ""
    backup = None
    try:
        stored, damaged = read(path)
        updated = _with_kernel(stored)
        if updated != stored or damaged:
            backup = write(path, updated, damaged=damaged)
    except OSError as error:
        return _not_kept(path, error)
    # Passed exercises stay here as well; if a second kernel writes at the same moment, the next check restores them.
    for name in [name for name, status in _KERNEL.items() if not status.done]:
        del _KERNEL[name]
    return f"{path} was damaged: it is kept as {backup.name}, and what could be read of it goes on." if backup else ""


def _with_kernel(stored: dict[str, ExerciseStatus]) -> dict[str, ExerciseStatus]:
    return stored | {name: stored.get(name, ExerciseStatus()).followed_by(status) for name, status in _KERNEL.items()}


def _not_kept(path: Path, error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return f"New progress is kept in this kernel only, because {path} can't be used: {reason}."
