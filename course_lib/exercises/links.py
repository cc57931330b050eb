"""Where to read on: a lesson's notebook near the learner's, a mistake's page in the web book."""

from __future__ import annotations

import os
from functools import cache
from importlib import metadata
from pathlib import Path
from urllib.parse import quote, urlsplit

from .workspace import current_folder

NEAR = 3  # the kernel's folder and those above it in which lessons are looked for


def lesson_page(lesson: str, section: str = "") -> str | None:
    """Find a lesson's notebook from the folder that the kernel runs in.

    Args:
        lesson: its number, such as "01".
        section: a heading in it.

    Returns:
        A relative address as JupyterLab follows it, or None where no such notebook is near.
    """
    here = current_folder()
    if here is None:
        return None
    for folder in (here, *here.parents)[:NEAR]:
        for place in (folder, folder / "notebooks"):
            there = [file for file in place.glob(f"{lesson}_*.ipynb") if not file.stem.endswith("_exercises")]
            if there:
                file = min(there, key=lambda file: (len(file.name), file.name))  # not one that is called ...-Copy1
                address = quote(Path(os.path.relpath(file, here)).as_posix())
                return f"{address}#{quote(section.replace(' ', '-'), safe='')}" if section else address
    return None


def mistake_page(mistake: str) -> str | None:
    """The address of a mistake's page; None for what the catalogue doesn't know, and where there is no book."""
    from course_lib.diagnosis import CATALOGUE

    return f"{book()}/mistakes/{mistake}.html" if mistake in CATALOGUE and book() else None


@cache
def book() -> str | None:
    """The address of the web book: the one that the installed package names, else GitHub Pages of its repository."""
    try:
        named = metadata.metadata("attention-course").get_all("Project-URL", [])
    except metadata.PackageNotFoundError:
        return None
    urls = dict(url.split(", ", 1) for url in named)
    if "Documentation" in urls:
        return urls["Documentation"].rstrip("/")
    repository = urlsplit(urls.get("Repository", ""))
    owner, _, name = repository.path.strip("/").partition("/")
    return f"https://{owner.lower()}.github.io/{name}" if repository.netloc == "github.com" and name else None
