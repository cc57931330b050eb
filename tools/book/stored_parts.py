"""The parts that are stored in the book's pages, so that they read well in the repository, too."""

from pathlib import Path

from . import grading, real_bugs, sessions, storyteller
from .parts import fill


def refresh(root: Path) -> list[Path]:
    """Store the parts anew in the pages of the repository and return the pages that changed."""
    changed = []
    pages = {
        "teach": sessions.parts(root),
        "grade": grading.parts(root),
        "real_bugs": real_bugs.parts(root),
        "storyteller": storyteller.parts(),
    }
    for name, parts in pages.items():
        page = root / "book" / f"{name}.md"
        before = page.read_text(encoding="utf-8")
        fill(page, parts)
        if page.read_text(encoding="utf-8") != before:
            changed.append(page)
    return changed
