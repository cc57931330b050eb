"""Which version of the course this is, where its repository is, and where its page on a mistake is."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

DISTRIBUTION = "attention-course"
ROOT = Path(__file__).resolve().parents[1]


def version() -> str:
    """The version of the course; "unknown" where it was copied and not installed."""
    return _about(ROOT)[0]


def repository_address() -> str | None:
    """The address of the course's repository; None where the course was copied and not installed."""
    return _about(ROOT)[1].get("repository")


def book_address() -> str | None:
    """The address of the web book: the documentation that the project names, else GitHub Pages of its repository."""
    urls = _about(ROOT)[1]
    if "documentation" in urls:
        return urls["documentation"].rstrip("/")
    repository = urlsplit(urls.get("repository", ""))
    owner, _, name = repository.path.strip("/").partition("/")
    return f"https://{owner.lower()}.github.io/{name}" if repository.netloc == "github.com" and name else None


def page_of(mistake: str | None) -> str | None:
    """The address of the book's page on a mistake.

    Args:
        mistake: id in the catalogue, or None.

    Returns:
        The address; None for what has no name, or where no address is known.
    """
    return f"{book_address()}/mistakes/{mistake}.html" if mistake and book_address() else None


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
