"""Build the web book: write its pages to build/book/source, run Sphinx to make build/book/html, check every link."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from . import real_bugs, sessions, storyteller
from .excerpts import write_articles
from .exercises import write_exercises
from .front_page import write_front
from .grading import write_grading
from .lessons import copy_notebooks, write_lessons
from .links import broken_links, read_pages, unreached_pages
from .mistakes import write_pages
from .moving_figures import write_figure_list, write_figures
from .palette import write_palette
from .parts import fill
from .preview import FOLDER, write_previews
from .recordings import write_list, write_recordings
from .redirects import write_moved
from .reference import write_reference
from .site_address import read_site
from .site_files import UNLISTED, write_site_files
from .unused_assets import lighten

ROOT = Path(__file__).resolve().parents[2]
MATHJAX = "sphinx-mathjax-offline"
MATHJAX_PARTS = ("mathjax/tex-chtml.js", "mathjax/output/chtml/fonts/")


def main() -> int:
    """Build, with warnings as errors, and return the exit status."""
    start, build = time.perf_counter(), ROOT / "build" / "book"
    source, html = build / "source", build / "html"
    shutil.rmtree(html, ignore_errors=True)
    lay_out(source)
    write_palette(build / "static" / "palette.css")
    strict = [
        "--fail-on-warning",
        "--keep-going",
        "--fresh-env",
        "--quiet",
        "--jobs=auto",
        f"--doctree-dir={build / 'doctrees'}",
    ]
    sphinx = [sys.executable, "-m", "sphinx", *strict, "-b", "html", "-c", str(ROOT / "book"), str(source), str(html)]
    status = subprocess.run(sphinx).returncode
    if status:
        return status
    copy_notebooks(ROOT, html)
    copy_mathjax(html)
    site = read_site(ROOT)
    write_moved(html, site)
    write_previews(html / "_static" / FOLDER)
    delete_unused(html)
    lighten(html)
    write_articles(html)
    write_recordings(ROOT, html)
    storyteller.write_story(html, site)
    write_figures(ROOT, html)
    write_site_files(html, site)
    read = read_pages(html)
    broken = broken_links(html, read) + unreached_pages(html, read, UNLISTED)
    for line in broken:
        print(line)
    size = sum(path.stat().st_size for path in html.rglob("*") if path.is_file()) / 1e6
    print(f"{len(read)} pages, {size:.1f} MB, {time.perf_counter() - start:.0f} s, {len(broken)} broken links")
    print(f"Open {html / 'index.html'}")
    return 1 if broken else 0


def lay_out(source: Path) -> None:
    """Write the whole folder again from scratch."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    for page in (ROOT / "book").glob("*.md"):
        shutil.copyfile(page, source / page.name)
    write_front(ROOT, source)
    write_lessons(ROOT, source / "notebooks")
    write_exercises(source / "exercises.md")
    write_list(source / "recordings.md")
    write_figure_list(source / "figures.md")
    write_reference(source / "reference")
    fill(source / "teach.md", sessions.parts(ROOT))
    write_grading(ROOT, source / "grade.md")
    fill(source / "real_bugs.md", real_bugs.parts(ROOT))
    fill(source / "storyteller.md", storyteller.parts())
    write_pages(source / "mistakes", workers=os.cpu_count() or 1)


def copy_mathjax(html: Path) -> None:
    """Copy MathJax and its fonts from their package to the built pages."""
    for file in importlib.metadata.files(MATHJAX) or ():
        _, _, part = file.as_posix().partition("/static/")
        if part.startswith(MATHJAX_PARTS):
            target = html / "_static" / part
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file.locate(), target)


def delete_unused(html: Path) -> None:
    """Delete the theme's files for its own developers, which are a third of the site and which no page reads."""
    for pattern in ("_static/**/*.map", "_static/*-macros.html", "_static/**/*.LICENSE.txt"):
        for path in html.glob(pattern):
            path.unlink()
    shutil.rmtree(html / "_static" / "locales", ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
