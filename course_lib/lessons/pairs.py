"""Keep the two files of a lesson in step: compared by content, never by file times alone.

jupytext's own ``--sync`` goes by file times, which a clone scrambles, and can throw the newer edit away.
"""

import difflib
import os
import shutil
import time
from pathlib import Path
from typing import Any

from course_lib.lessons.discover import Lesson
from course_lib.lessons.notebook_file import read_ipynb, read_py, write_ipynb, write_py


def cell_key(cell: Any) -> tuple[str, str, tuple[str, ...]]:
    """Return what both files must agree on: a cell's type, source and tags."""
    source = "\n".join(line.rstrip() for line in cell.source.splitlines()).strip("\n")
    return cell.cell_type, source, tuple(cell.metadata.get("tags", ()))


def differences(py: Any, ipynb: Any) -> list[str]:
    """Say how two notebooks differ in cell type, source and tags; an empty list means that they agree."""
    ours, theirs = [cell_key(cell) for cell in py.cells], [cell_key(cell) for cell in ipynb.cells]
    found = []
    if len(ours) != len(theirs):
        found.append(f"the .py has {len(ours)} cells, the .ipynb has {len(theirs)}")
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), start=1):
        for part, a, b in zip(("type", "source", "tags"), one, other, strict=True):
            if a != b:
                both = f"{_first_line(a, b)} in the .py, {_first_line(b, a)} in the .ipynb"
                found.append(f"cell {number} differs in its {part}: {both}")
    return found


def carry_outputs(fresh: Any, stored: Any) -> None:
    """Copy outputs from a stored notebook to the cells of a fresh one whose source did not change; clear the others."""
    old = [cell for cell in stored.cells if cell.cell_type == "code"]
    new = [cell for cell in fresh.cells if cell.cell_type == "code"]
    for cell in new:
        cell.outputs, cell.execution_count = [], None
    sources = [cell_key(cell)[1] for cell in old], [cell_key(cell)[1] for cell in new]
    matcher = difflib.SequenceMatcher(None, *sources, autojunk=False)
    for block in matcher.get_matching_blocks():
        for before, after in zip(old[block.a :][: block.size], new[block.b :][: block.size], strict=True):
            after.outputs, after.execution_count = before.outputs, before.execution_count


def sync(lesson: Lesson) -> str | None:
    """Bring the two files of a lesson into step.

    Where they agree nothing is written, but the ``.py`` is made at least as new as the ``.ipynb``, because JupyterLab
    refuses to open a pair whose text file looks outdated. Where they differ the newer edit wins, and a copy of the
    other file is kept in ``notebooks/.ipynb_checkpoints``.

    Returns:
        One sentence that says what happened, or None when the two agreed.
    """
    if not lesson.ipynb.exists():
        write_ipynb(read_py(lesson.py), lesson)
        freshen(lesson)
        return f"{lesson.name}: made the .ipynb from the .py."
    if not lesson.py.exists():
        write_py(read_ipynb(lesson.ipynb), lesson)
        return f"{lesson.name}: made the .py from the .ipynb."
    py, ipynb = read_py(lesson.py), read_ipynb(lesson.ipynb)
    found = differences(py, ipynb)
    if not found:
        freshen(lesson)
        return None
    count = f"{len(found)} difference{'s' if len(found) > 1 else ''}"
    if lesson.py.stat().st_mtime >= lesson.ipynb.stat().st_mtime:
        kept = _keep_copy(lesson.ipynb, lesson.folder)
        carry_outputs(py, ipynb)
        write_ipynb(py, lesson)
        freshen(lesson)
        winner = "the .py is newer, the .ipynb follows it"
    else:
        kept = _keep_copy(lesson.py, lesson.folder)
        write_py(ipynb, lesson)
        winner = "the .ipynb is newer, the .py follows it"
    return f"{lesson.name}: {count}; {winner} (the older file is kept as {kept.parent.name}/{kept.name})."


def freshen(lesson: Lesson) -> None:
    """Make the ``.py`` not older than the ``.ipynb``, without touching its content."""
    newest = lesson.ipynb.stat().st_mtime_ns
    if lesson.py.stat().st_mtime_ns < newest:
        os.utime(lesson.py, ns=(newest, newest))


def _keep_copy(path: Path, beside: Path) -> Path:
    folder = beside / ".ipynb_checkpoints"
    folder.mkdir(exist_ok=True)
    copy = folder / f"{path.stem}-{time.strftime('%Y%m%d-%H%M%S')}{path.suffix}"
    return Path(shutil.copy2(path, copy))


def _first_line(text: Any, other: Any) -> str:
    """Show the first line in which a text leaves the other one."""
    if not isinstance(text, str):
        return repr(list(text))
    lines, others = text.splitlines(), str(other).splitlines()
    apart = (i for i, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b)
    place = next(apart, min(len(lines), len(others)))
    return repr(lines[place][:60]) if place < len(lines) else "nothing there"
