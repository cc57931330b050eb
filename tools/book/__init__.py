"""The web book: its build, and its pages made from the notebooks, the catalogue and the docstrings."""

import sys
from pathlib import Path

# As in course_lib.command.fast_startup: jsonschema takes 1.8 s to build a grammar that no notebook needs.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

from .reference import as_literal_blocks  # noqa: E402

__all__ = ["as_literal_blocks", "refresh", "write_recordings"]


def refresh(root: Path) -> list[Path]:
    """Store the parts anew in the pages of the repository and return the pages that changed."""
    from .stored_parts import refresh

    return refresh(root)


def write_recordings(root: Path, html: Path) -> None:
    """Write the page of each recording, with its pictures, into a folder."""
    from .recordings import write_recordings

    write_recordings(root, html)
