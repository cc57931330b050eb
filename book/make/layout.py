"""Lay out the folder that Sphinx reads: pages written by hand, and pages made from the code."""

import importlib.metadata
import os
import shutil
from pathlib import Path

from book.make.exercises import write_exercises
from book.make.front import write_front
from book.make.grading import write_grading
from book.make.lessons import write_lessons
from book.make.mistakes import write_pages
from book.make.reference import write_reference
from book.make.versions import write_versions

MATHJAX = "sphinx-mathjax-offline"
MATHJAX_PARTS = ("mathjax/tex-chtml.js", "mathjax/output/chtml/fonts/")


def lay_out(root: Path, source: Path) -> None:
    """Make the folder anew."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for page in (root / "book").glob("*.md"):
        shutil.copyfile(page, source / page.name)
    write_front(root, source)
    write_lessons(root, source / "notebooks")
    write_exercises(source / "exercises.md")
    write_reference(source / "reference")
    write_versions(root / "book" / "versions.json", source / "versions.md")
    write_grading(root / "book" / "grading.json", source / "grade.md")
    (source / "mistakes").mkdir()
    write_pages(source / "mistakes", workers=os.cpu_count() or 1)


def give_mathjax(html: Path) -> None:
    """Put MathJax and its fonts beside the built pages, from the package that carries them."""
    for file in importlib.metadata.files(MATHJAX) or ():
        _, _, part = file.as_posix().partition("/static/")
        if part.startswith(MATHJAX_PARTS):
            target = html / "_static" / part
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), target)
