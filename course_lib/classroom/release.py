"""A week's exercises for students: the sheets without solutions, stamped, and a record of what was handed out."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from course_lib.classroom.record import FILE, Record, asked
from course_lib.lessons.address import Address, read_address
from course_lib.lessons.discover import SOLUTIONS, Lesson, find_notebooks
from course_lib.lessons.notebook_file import kept_metadata, read_py

_COLAB_LINE = re.compile(r"^\[Open in Colab\]\(.*\)\n+", re.MULTILINE)
_NEIGHBOUR = re.compile(r"\]\((\.\./)?([\w-]+\.ipynb)\)")


def release(root: Path, name: str, lessons: list[str], to: Path) -> Path:
    """Write the student sheets of some lessons into a folder of their own.

    Args:
        root: the repository, whose notebooks/solutions are the source.
        name: of the release, such as "week1"; letters, digits, dots, dashes and underscores.
        lessons: numbers of lessons that have exercises, such as ["01", "02"].
        to: the folder that gets a folder `name`.

    Returns:
        The new folder: a notebook for each lesson, and release.json, the record that grading reads.

    Raises:
        ValueError: a name with other characters, no lesson, a lesson without exercises, a release that exists already.
    """
    from course_lib.lessons.student import student_notebook

    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise ValueError(f"name is {name!r}: take letters, digits, dots, dashes and underscores, such as week1.")
    sheets = _sheets(root, lessons)
    folder = to / name
    if folder.exists():
        raise ValueError(f"{folder} exists already: take another name, or remove it if nobody has it yet.")
    stamp = {"release": name, **_version(root)}
    address = read_address(root)
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to) as temporary:  # beside its place: it appears whole or not at all
        made = Path(temporary) / name
        made.mkdir()
        texts = {
            f"{sheet.name}.ipynb": _as_text(stamped(student_notebook(read_py(sheet.py)), stamp, address))
            for sheet in sheets
        }
        for file, text in texts.items():
            (made / file).write_text(text, encoding="utf-8", newline="\n")
        sums = {file: hashlib.sha256(text.encode()).hexdigest() for file, text in texts.items()}
        record = Record(**stamp, exercises=asked(lessons), sha256=sums)
        (made / FILE).write_text(_as_text(record.as_dict()), encoding="utf-8", newline="\n")
        shutil.move(made, folder)
    return folder


def stamped(notebook: Any, stamp: dict[str, str], address: Address) -> Any:
    """Say in a sheet which release it is, in words and as data, and lead its links to the course's own pages."""
    first = notebook.cells[0]
    first.source = _COLAB_LINE.sub("", first.source)  # Colab would open the public sheet, which bears no stamp
    pages = f"https://github.com/{address.slug}/blob/{address.ref}/notebooks"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _NEIGHBOUR.sub(
                lambda link: f"]({pages}/{'' if link[1] else 'exercises/'}{link[2]})", cell.source
            )
    first.source += (
        f"\n\n*{stamp['release']}, version {stamp['version']}. Hand in this notebook, under this name; "
        "keep its cells, and write in those that say so.*"
    )
    notebook.metadata["attention_course"] = dict(stamp)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{stamp['release'][:40]}-{number}".replace(".", "-")
        cell.metadata = kept_metadata(cell)
    return notebook


def _sheets(root: Path, lessons: list[str]) -> list[Lesson]:
    there = {sheet.name[:2]: sheet for sheet in find_notebooks(root, folders=(SOLUTIONS,))}
    missing = [lesson for lesson in lessons if lesson not in there]
    if not lessons or missing:
        asked = f"lesson {missing[0]!r} has no exercises" if missing else "no lesson was named"
        raise ValueError(f"{asked[0].upper()}{asked[1:]}: choose among {', '.join(there)}, such as --lessons 01,02.")
    return [there[lesson] for lesson in lessons]


def _version(root: Path) -> dict[str, str]:
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    git = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        commit = "unknown"  # a copy without its history
    return {"version": version, "commit": commit}


def _as_text(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
