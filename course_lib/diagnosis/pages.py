"""Which version of the course speaks, and where its page on a mistake is."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "attention-course"
ROOT = Path(__file__).resolve().parents[2]


def version() -> str:
    """The version of the course; "unknown" where it was copied and not installed."""
    return _about(ROOT)[0]


def page_of(mistake: str | None) -> str | None:
    """The address of the page on a mistake: in the published book, else its example in the repository.

    Args:
        mistake: id in the catalogue, or None.

    Returns:
        The address; None for what has no name, or where no address is known.
    """
    number, urls = _about(ROOT)
    if mistake is None:
        return None
    if "documentation" in urls:
        return f"{urls['documentation'].rstrip('/')}/mistakes/{mistake}.html"
    if "repository" not in urls:
        return None
    ref = "main" if ".dev" in number else f"v{number}"
    return f"{urls['repository'].rstrip('/')}/blob/{ref}/book/mistakes/{mistake}.py"


@cache
def _about(root: Path) -> tuple[str, dict[str, str]]:
    """Version and addresses: of the clone where this is one, because what was installed of it may be older."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        if project["name"] == DISTRIBUTION:
            return project["version"], {name.lower(): url for name, url in project["urls"].items()}
    except (OSError, tomllib.TOMLDecodeError, KeyError):
        pass
    try:
        told = metadata.metadata(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown", {}
    pairs = (line.partition(", ") for line in told.get_all("Project-URL") or ())
    return told["Version"], {name.lower(): url for name, _, url in pairs}
