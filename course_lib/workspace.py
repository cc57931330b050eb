"""Copy the notebooks for a learner, and update a copy only if none of the learner's work is lost."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import time
from dataclasses import dataclass, field
from pathlib import Path

import course_lib

from .atomic_file import write_text

MARKER = ".attention-course"  # in the folder of the copies: the checksum of each when it was copied
FOLDER = "my_course"
FIRST_LESSON = "00_start_here.ipynb"
# The folders of a learner's workspace: file browsers sort folders by name, so these appear in reading order, and nobody
# sees a solution before its exercise.
SOLUTION = re.compile(r"^ *### (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)
HIDDEN_TESTS = re.compile(r"^### BEGIN HIDDEN TESTS\n.*?^### END HIDDEN TESTS\n", re.MULTILINE | re.DOTALL)
FOLDERS = {"": "1_lessons", "exercises": "2_exercises", "solutions": "3_solutions"}


@dataclass
class Copied:
    """What was done with the notebooks, each given by its path in the workspace.

    Attributes:
        new: notebooks that were missing, and were copied.
        updated: notebooks that the learner had not changed, and that were replaced by a newer version.
        behind: notebooks that the learner has changed and that have a newer version; they were left as they are.
        renamed: notebooks that were copied again on request -> the new name of the learner's own file.
        unchanged: notebooks that were to be copied again, and are what would be copied.
    """

    new: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)
    unchanged: list[str] = field(default_factory=list)


def course_notebooks() -> Path:
    """Return the folder of the course's notebooks: `notebooks` of a clone, or else the installed folder.

    Raises:
        FileNotFoundError: neither exists.
    """
    package = Path(course_lib.__file__).resolve().parent
    for folder in (package.parent / "notebooks", package / "notebooks"):
        if (folder / FIRST_LESSON).is_file():
            return folder
    raise FileNotFoundError(f"The course's notebooks are neither beside {package} nor in it: install the course again.")


def find_workspace(start: Path) -> Path | None:
    """Return the nearest folder at or above `start` that holds a learner's copies, or None."""
    return next((folder for folder in (start, *start.parents) if (folder / MARKER).is_file()), None)


def copy_notebooks(source: Path, workspace: Path, again: tuple[str, ...] = ()) -> Copied:
    """Copy what is new, replace what the learner has not changed, and keep the rest.

    A notebook counts as changed if the source of a cell differs from what was copied; outputs don't count.

    Args:
        source: folder of the course's notebooks.
        workspace: folder of the copies; it is created if missing.
        again: notebooks to copy again, such as `03_wrapper` or `exercises/03`; the learner's own file is renamed.

    Raises:
        ValueError: a name in `again` is not a notebook of the course.
        OSError: a file can't be read or written; no copy is left incomplete.
    """
    originals = {
        f"{new}/{path.name.replace('_exercises', f'_{old}')}": path
        for old, new in FOLDERS.items()
        for path in sorted((source / old).glob("*.ipynb"))
    }
    wanted = {_find_notebook(name, list(originals)) for name in again}
    copied_as = _read_marker(workspace)
    done = Copied()
    for name, original in originals.items():
        text, target = for_learner(original.read_text(encoding="utf-8")), workspace / name
        now, theirs = fingerprint(text), _fingerprint_of(target)
        if theirs is None:
            done.new.append(name)
        elif name in wanted and theirs not in (now, copied_as.get(name)):
            kept = _free_name(target)
            os.replace(target, kept)
            done.renamed[name] = kept.relative_to(workspace).as_posix()
        elif theirs == now:
            copied_as[name] = now
            done.unchanged += [name] if name in wanted else []
            continue
        elif theirs == copied_as.get(name):
            done.updated.append(name)
        else:
            if copied_as.get(name) != now:
                done.behind.append(name)
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, text)
        copied_as[name] = now
    write_text(workspace / MARKER, json.dumps(copied_as, indent=1) + "\n")
    return done


def fingerprint(text: str) -> str:
    """Return a checksum of the sources of a notebook's cells, without outputs and metadata."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def for_learner(text: str) -> str:
    """Return a notebook as it is copied: with links to the learner's folders, and with this Python's version.

    Solutions say that they are, and have none of the marks by which a teacher's tools find what to take away.
    JupyterLab adds the version when it opens a notebook, and would then show an untouched copy as changed.
    """
    notebook = json.loads(text)
    is_solution = "### BEGIN SOLUTION" in text
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = "".join(map(_relink, source.splitlines(keepends=True)))
            source = source.replace("# Exercises: ", "# Solutions: ", 1) if is_solution else source
        elif is_solution:
            source = SOLUTION.sub("", HIDDEN_TESTS.sub("", source)).rstrip("\n")
        cell["source"] = source.splitlines(keepends=True)
    notebook["metadata"].setdefault("language_info", {})["version"] = platform.python_version()
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _relink(line: str) -> str:
    line = re.sub(r"\]\(\.\./(?=\d\d_)", f"](../{FOLDERS['']}/", line)
    line = re.sub(r"\]\((?=\d\d_exercises)", f"](../{FOLDERS['exercises']}/", line)
    for old, new in FOLDERS.items():
        line = re.sub(rf"\]\((?:\.\./)?{old}/(?=\d\d_)", f"](../{new}/", line) if old else line
    return line


def _fingerprint_of(path: Path) -> str | None:
    """Return the checksum of a learner's file, or None if it does not exist; an unreadable file counts as changed."""
    if not path.exists():
        return None
    try:
        return fingerprint(path.read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def _free_name(path: Path) -> Path:
    """Return an unused name in the folder of a file, so that files that were renamed earlier are kept."""
    stem, number = f"{path.stem}_before_{time.strftime('%Y-%m-%d_%H%M%S')}", 1
    kept = path.with_name(f"{stem}.ipynb")
    while kept.exists():
        number += 1
        kept = path.with_name(f"{stem}_{number}.ipynb")
    return kept


def _read_marker(workspace: Path) -> dict[str, str]:
    try:
        marker = json.loads((workspace / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return marker if isinstance(marker, dict) else {}


def _find_notebook(name: str, names: list[str]) -> str:
    """Find a notebook by its path, the end of its path or its number, in the learner's or the course's folders."""
    plain = name.replace("\\", "/").removesuffix(".ipynb").removeprefix("./")
    folder, _, stem = plain.rpartition("/")
    full = f"{FOLDERS.get(folder, folder)}/{stem}"
    exact = [path for path in names if path.removesuffix(".ipynb") == full or path.startswith(f"{full}_")]
    for path in exact or [path for path in names if path.endswith(f"/{plain}.ipynb")]:
        return path
    raise ValueError(f"There is no notebook {name!r} in the course: give a name such as 03_wrapper or exercises/03.")
