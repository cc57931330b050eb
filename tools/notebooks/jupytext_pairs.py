"""Keep the two files of a lesson in sync: compared by content, never by modification times alone.

What `jupytext --sync` does depends on modification times, which a clone scrambles, and it can discard the newer edit.
"""

import difflib
import os
import shutil
import time
from pathlib import Path
from typing import Any

from course_lib.wording import counted

from .lesson_files import LESSONS, Lesson, find_notebooks
from .notebook_file import read_ipynb, read_py, write_ipynb, write_py


def cell_key(cell: Any) -> tuple[str, str, tuple[str, ...]]:
    """Return what both files must agree on: the type, source and tags of a cell."""
    source = "\n".join(line.rstrip() for line in cell.source.splitlines()).strip("\n")
    return cell.cell_type, source, tuple(cell.metadata.get("tags", ()))


def differences(py: Any, ipynb: Any) -> list[str]:
    """Return a sentence per difference between two notebooks in cell type, source or tags."""
    sentences = []
    if len(py.cells) != len(ipynb.cells):
        sentences.append(f"the .py has {len(py.cells)} cells, the .ipynb has {len(ipynb.cells)}")
    for number, cells in enumerate(zip(py.cells, ipynb.cells, strict=False), start=1):
        for part, a, b in zip(("type", "source", "tags"), *map(cell_key, cells), strict=True):
            if a != b:
                both = f"{_first_line(a, b)} in the .py, {_first_line(b, a)} in the .ipynb"
                sentences.append(f"cell {number} differs in its {part}: {both}")
    return sentences


def carry_outputs(fresh: Any, stored: Any) -> None:
    """Copy outputs from a stored notebook to the cells of a new one whose source did not change; clear the others."""
    old = [cell for cell in stored.cells if cell.cell_type == "code"]
    new = [cell for cell in fresh.cells if cell.cell_type == "code"]
    for cell in new:
        cell.outputs, cell.execution_count = [], None
    sources = ([cell_key(cell)[1] for cell in cells] for cells in (old, new))
    for block in difflib.SequenceMatcher(None, *sources, autojunk=False).get_matching_blocks():
        for before, after in zip(old[block.a :][: block.size], new[block.b :][: block.size], strict=True):
            after.outputs, after.execution_count = before.outputs, before.execution_count


def sync(lesson: Lesson) -> str | None:
    """Sync the two files of a lesson; return a sentence that says what was done, or None if they agreed.

    Where they agree nothing is written, but the `.py` is made at least as new as the `.ipynb`, because JupyterLab
    refuses to open a pair whose text file looks outdated. Where they differ the newer edit wins, and a copy of the
    other file is kept in `notebooks/.ipynb_checkpoints`.
    """
    if not lesson.ipynb.exists():
        write_ipynb(read_py(lesson.py), lesson)
        freshen(lesson)
        return f"{lesson.name}: made the .ipynb from the .py."
    if not lesson.py.exists():
        write_py(read_ipynb(lesson.ipynb), lesson)
        return f"{lesson.name}: made the .py from the .ipynb."
    py, ipynb = read_py(lesson.py), read_ipynb(lesson.ipynb)
    changes = differences(py, ipynb)
    if not changes:
        freshen(lesson)
        return None
    count = counted(len(changes), "difference")
    newer, older = sorted((lesson.py, lesson.ipynb), key=lambda path: path.stat().st_mtime, reverse=True)
    kept = lesson.folder / ".ipynb_checkpoints" / f"{older.stem}-{time.strftime('%Y%m%d-%H%M%S')}{older.suffix}"
    kept.parent.mkdir(exist_ok=True)
    shutil.copy2(older, kept)
    if newer == lesson.py:
        carry_outputs(py, ipynb)
        write_ipynb(py, lesson)
        freshen(lesson)
    else:
        write_py(ipynb, lesson)
    winner = f"the {newer.suffix} is newer, the {older.suffix} follows it"
    return f"{lesson.name}: {count}; {winner} (the older file is kept as {kept.parent.name}/{kept.name})."


def sync_all(root: Path) -> None:
    """Sync every lesson and print what was done."""
    for lesson in find_notebooks(root, folders=(LESSONS,)):
        try:
            done = sync(lesson)
        except Exception as error:  # a half-edited file must not keep the others from opening
            done = f"{lesson.name}: left as it is, because a file can't be read ({type(error).__name__}: {error})."
        if done:
            print(done)


def freshen(lesson: Lesson) -> None:
    """Give a `.py` that is older than its `.ipynb` the modification time of the `.ipynb`."""
    newest = lesson.ipynb.stat().st_mtime_ns
    if lesson.py.stat().st_mtime_ns < newest:
        os.utime(lesson.py, ns=(newest, newest))


def _first_line(text: Any, other: Any) -> str:
    """Return the first line of a text that differs from the other text."""
    if not isinstance(text, str):
        return repr(list(text))
    lines, others = text.splitlines(), str(other).splitlines()
    different = (i for i, (a, b) in enumerate(zip(lines, others, strict=False)) if a != b)
    index = next(different, min(len(lines), len(others)))
    return repr(lines[index][:60]) if index < len(lines) else "nothing there"
