"""Build the web book: lay the pages out in build/book/source, let Sphinx make build/book/html, check every link."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

from book.make.layout import give_mathjax, lay_out
from book.make.lessons import give_the_notebooks
from book.make.links import broken_links

ROOT = Path(__file__).resolve().parents[2]


def main(build: Path = ROOT / "build" / "book") -> int:
    """Build; warnings are errors. Returns the exit status."""
    start = time.perf_counter()
    source, html = build / "source", build / "html"
    shutil.rmtree(html, ignore_errors=True)
    lay_out(ROOT, source)
    strict = ["--fail-on-warning", "--keep-going", "--fresh-env", "--quiet", f"--doctree-dir={build / 'doctrees'}"]
    sphinx = [sys.executable, "-m", "sphinx", *strict, "-b", "html", "-c", str(ROOT / "book"), str(source), str(html)]
    status = subprocess.run(sphinx).returncode
    if status:
        return status
    give_the_notebooks(ROOT, html)
    give_mathjax(html)
    leave_out(html)
    broken = broken_links(html)
    for line in broken:
        print(line)
    pages = len(list(html.rglob("*.html")))
    size = sum(path.stat().st_size for path in html.rglob("*") if path.is_file()) / 1e6
    print(f"{pages} pages, {size:.1f} MB, {time.perf_counter() - start:.0f} s, {len(broken)} broken links")
    print(f"Open {html / 'index.html'}")
    return 1 if broken else 0


def leave_out(html: Path) -> None:
    """Delete what the theme brings for its own developers: a third of the site, and no page reads it."""
    for pattern in ("_static/**/*.map", "_static/*-macros.html", "_static/**/*.LICENSE.txt"):
        for path in html.glob(pattern):
            path.unlink()
    shutil.rmtree(html / "_static" / "locales", ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
