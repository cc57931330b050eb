"""Where a finding is, as code hosts want it: relative to the root of the repository."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from course_lib.command.target import repository_of

if TYPE_CHECKING:
    from course_lib.diagnosis import Finding


def location_of(finding: Finding | None, target: str) -> tuple[str, int] | None:
    """Return the file and line of a finding, or the target's file and line 1; None if the target names no file.

    A finding in a cell is in its notebook, whose lines nobody sees; a finding in an installed package is the target's.
    """
    file, line = getattr(finding and finding.where, "file", ""), getattr(finding and finding.where, "line", 1)
    if file.endswith("]") and "[cell " in file:
        file, line = file.rpartition("[cell ")[0], 1
    typed = Path(target.rpartition(":")[0])
    root = repository_of(typed.resolve()) or Path.cwd()
    path = Path(file).resolve() if file else typed.resolve()
    if not (path.is_file() and path.is_relative_to(root)):
        path, line = typed.resolve(), 1
    if not path.is_file():
        return None
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix(), line
