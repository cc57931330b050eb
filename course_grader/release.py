"""Release exercises to a class: stamped notebooks without solutions, and the manifest that records them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from course_lib.about import repository_address, version

from .individual_notebook import explained_notebook, individual_notebook, notebook_with_guesses
from .manifest import MANIFEST, Release, released_exercises
from .reports import read_roster, sheets_of
from .secret import kept_secret
from .student_version import kept_metadata, student_notebook

SECRET = "individual.secret"
_COLAB_LINE = re.compile(r"^\[Open in Colab\]\(.*\)\n+", re.MULTILINE)
_RELATIVE_LINK = re.compile(r"\]\((\.\./)?([\w-]+\.ipynb)\)")


def make_release(
    notebooks: Path,
    name: str,
    lessons: list[str],
    to: Path,
    roster: Path | None = None,
    *,
    explain: bool = False,
    guesses: bool = False,
) -> Path:
    """Write the students' notebooks of some lessons into a folder of their own.

    Args:
        notebooks: The course's folder of notebooks, of a clone or as pip installed it.
        name: The name of the release, such as "week1".
        lessons: The numbers of lessons that have exercises, such as ["01", "02"].
        to: The folder that gets a folder `name`, with a notebook per lesson and the manifest that grading reads.
        roster: The export of a gradebook: each student in it gets a folder, with notebooks of their own. They are drawn
            from a secret in `to`, which is made once, so a student keeps the same number from release to release.
        explain: Whether each sheet asks a question whose answer is a sentence, which the teacher reads.
        guesses: Whether each sheet asks for leave to count the guesses of its lesson.

    Raises:
        ValueError: The name has invalid characters, no lesson is named, a lesson has no exercises, the release
            exists, or the roster can't be read.
    """
    import nbformat  # here, as nbgrader: a machine that only grades needs neither

    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise ValueError(f"name is {name!r}: use letters, digits, dots, dashes and underscores, such as week1.")
    solutions = _solutions(notebooks, lessons)
    folder = to / name
    if folder.exists():
        raise ValueError(f"{folder} exists already: choose a different name, or remove it if nobody has it yet.")
    stamp = {"release": name, "version": version(), "commit": _commit(notebooks.parent)}
    class_list = read_roster(roster, name) if roster else None  # before anything is written
    to.mkdir(parents=True, exist_ok=True)
    sheets = sheets_of(class_list, kept_secret(to / SECRET)) if class_list else ()
    with tempfile.TemporaryDirectory(dir=to) as temporary:  # in the same folder: it appears whole or not at all
        complete = Path(temporary) / name
        complete.mkdir()
        notebook_of = {path.name: nbformat.read(path, as_version=4) for path in solutions}
        if explain:
            notebook_of = {file: explained_notebook(one, file[:2]) for file, one in notebook_of.items()}
        if guesses:
            notebook_of = {file: notebook_with_guesses(one, file[:2]) for file, one in notebook_of.items()}
        texts = {}
        for sheet in sheets or (None,):
            for file, notebook in notebook_of.items():
                own = individual_notebook(notebook, file[:2], sheet.number) if sheet else notebook
                about = stamp | {"sheet": str(sheet.number)} if sheet else stamp
                texts[f"{sheet.folder}/{file}" if sheet else file] = _as_json(_stamped(student_notebook(own), about))
        for path, text in texts.items():
            (complete / path).parent.mkdir(exist_ok=True)
            (complete / path).write_text(text, encoding="utf-8", newline="\n")
        checksums = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()}
        exercises = released_exercises(lessons, individual=bool(sheets), explain=explain)
        release = Release(name, stamp["version"], stamp["commit"], exercises, checksums, bool(sheets), sheets)
        (complete / MANIFEST).write_text(_as_json(release.as_dict()), encoding="utf-8", newline="\n")
        shutil.move(complete, folder)
    return folder


def _stamped(notebook: Any, stamp: dict[str, str]) -> Any:
    """Write into a notebook which release it belongs to, in words and as data, and make its links absolute."""
    first = notebook.cells[0]
    first.source = _COLAB_LINE.sub("", first.source)  # Colab would open the public notebook, which has no stamp
    ref = "main" if ".dev" in stamp["version"] else f"v{stamp['version']}"
    pages = f"{repository_address()}/blob/{ref}/notebooks"
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = _RELATIVE_LINK.sub(
                lambda link: f"]({pages}/{'' if link[1] else 'exercises/'}{link[2]})", cell.source
            )
    first.source += (
        f"\n\n*{stamp['release']}, version {stamp['version']}. Hand in this notebook; "
        "keep its cells, and write in those that say so. In grading, count on Python's own modules, PyTorch and NumPy "
        "only: other packages, such as `einops`, may be missing, and `torch.compile` does nothing.*"
    )
    notebook.metadata["attention_course"] = dict(stamp)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"{stamp['release'][:40]}-{number}".replace(".", "-")
        cell.metadata = kept_metadata(cell)
    return notebook


def _solutions(notebooks: Path, lessons: list[str]) -> list[Path]:
    available = {path.name[:2]: path for path in sorted((notebooks / "solutions").glob("[0-9][0-9]_*.ipynb"))}
    missing = [lesson for lesson in lessons if lesson not in available]
    if not lessons or missing:
        problem = f"Lesson {missing[0]!r} has no exercises" if missing else "No lesson was named"
        raise ValueError(f"{problem}: choose among {', '.join(available)}, such as --lessons 01,02.")
    return [available[lesson] for lesson in lessons]


def _commit(root: Path) -> str:
    """Return the commit of a clone, or "unknown" for a copy without its history, as pip installs it."""
    git = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    if not (root / "pyproject.toml").is_file():  # not a clone, though some other repository may be above it
        return "unknown"
    try:
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _as_json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
