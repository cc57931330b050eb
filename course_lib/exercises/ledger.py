"""Which exercises are done, after how many attempts and since when: counted in the kernel, kept in a file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from .progress_file import Mark, read, write
from .workspace import file_of_progress

_KERNEL: dict[str, Mark] = {}  # what this kernel adds to the file; where there is none, all there is


def count_attempt(name: str, passed: bool) -> None:
    """Count a check of new code."""
    when = datetime.now(UTC).isoformat(timespec="seconds") if passed else None
    _KERNEL[name] = _KERNEL.get(name, Mark()).then(Mark(passed, 1, when))


def marks() -> tuple[dict[str, Mark], str]:
    """Bring the file up to date and read it.

    Returns:
        Name of an exercise -> its mark; and one sentence about what is wrong with the file, or "".
    """
    path, trouble = file_of_progress(), save()  # what couldn't be written before may be now
    if path is None:
        return dict(_KERNEL), ""
    try:
        stored, damaged = read(path)
    except OSError as error:
        return dict(_KERNEL), _not_kept(path, error)
    if damaged and not trouble:
        trouble = f"{path} is damaged: what can be read of it is shown."
    return _with_kernel(stored), trouble


def save() -> str:
    """Bring the file up to date; without one, or with nothing new, nothing is done.

    Returns:
        One sentence where the file couldn't be written, or was damaged; else "".
    """
    path = file_of_progress()
    if path is None or not _KERNEL:
        return ""
    aside = None
    try:
        stored, damaged = read(path)
        fresh = _with_kernel(stored)
        if fresh != stored or damaged:
            aside = write(path, fresh, damaged=damaged)
    except OSError as error:
        return _not_kept(path, error)
    # A mark stays here too: were a second kernel to write at the same moment, the next check would bring it back.
    for name in [name for name, mark in _KERNEL.items() if not mark.done]:
        del _KERNEL[name]
    return f"{path} was damaged: it is kept as {aside.name}, and what could be read of it goes on." if aside else ""


def _with_kernel(stored: dict[str, Mark]) -> dict[str, Mark]:
    return stored | {name: stored.get(name, Mark()).then(mark) for name, mark in _KERNEL.items()}


def _not_kept(path: Path, error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return f"New progress is kept in this kernel only, because {path} can't be used: {reason}."
