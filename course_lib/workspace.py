"""A learner's own copies of the notebooks: made once, brought up to date only where nothing of theirs is lost."""

import hashlib
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import course_lib
from course_lib.lessons.whole import write_text

MARKER = ".attention-course"  # in the folder of the copies: what each was when it was copied
FOLDER = "my_course"
FIRST_LESSON = "00_start_here.ipynb"


@dataclass
class Copied:
    """What became of the notebooks of a workspace, each by its path in it.

    Attributes:
        new: those that were not there.
        updated: those that the learner had not changed and that have a newer version now.
        behind: those that the learner has changed and that have a newer version; they stay as they are.
        renamed: the learner's own file of each that was asked for again, by the name it has now.
    """

    new: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)


def course_notebooks() -> Path:
    """Return the folder of the course's notebooks: in a clone `notebooks`, else the one that pip installed.

    Raises:
        FileNotFoundError: there is neither.
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

    A notebook counts as changed where the text of a cell differs from what was copied; outputs don't count.

    Args:
        source: the course's notebooks.
        workspace: the folder of the copies; made where it is missing.
        again: copy these anew, such as `03_wrapper` or `exercises/03_exercises`; the learner's own file is renamed.

    Returns:
        What became of them.

    Raises:
        ValueError: a name of `again` is no notebook of the course.
        OSError: a file can't be read or written; each copy is there as a whole or not at all.
    """
    names = [path.relative_to(source).as_posix() for path in sorted(source.glob("**/*.ipynb")) if _is_ours(path)]
    wanted = {_named(name, names) for name in again}
    copied_as = _read_marker(workspace)
    done = Copied()
    for name in names:
        text, target = (source / name).read_text(encoding="utf-8"), workspace / name
        now, theirs = fingerprint(text), _fingerprint_of(target)
        if theirs is None:
            done.new.append(name)
        elif name in wanted:
            kept = target.with_name(f"{target.stem}_before_{time.strftime('%Y-%m-%d_%H%M%S')}.ipynb")
            os.replace(target, kept)
            done.renamed[name] = kept.relative_to(workspace).as_posix()
        elif theirs == now:
            copied_as[name] = now
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
    """Return a checksum of what a notebook's cells say, outputs and metadata left out."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return hashlib.sha256(json.dumps(cells).encode()).hexdigest()[:16]


def _fingerprint_of(path: Path) -> str | None:
    """Return the checksum of a learner's file, None where there is none; one that can't be read counts as changed."""
    if not path.exists():
        return None
    try:
        return fingerprint(path.read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def _read_marker(workspace: Path) -> dict[str, str]:
    try:
        found = json.loads((workspace / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_ours(path: Path) -> bool:
    return not any(part.startswith(".") for part in path.parts[-2:])


def _named(name: str, names: list[str]) -> str:
    """Find a notebook by its path or the end of it, with or without `.ipynb`, or by its number."""
    plain = name.replace("\\", "/").removesuffix(".ipynb").removeprefix("./")
    for fits in (lambda one: one == plain, lambda one: one.startswith(f"{plain}_")):
        for full in names:
            if fits(full.removesuffix(".ipynb")):
                return full
    raise ValueError(f"There is no notebook {name!r} in the course: give a name such as 03_wrapper.")
