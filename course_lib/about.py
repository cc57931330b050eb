"""The version of the course, the address of its repository, and the addresses of its pages on mistakes."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

DISTRIBUTION = "attention-course"
ROOT = Path(__file__).resolve().parents[1]


def version() -> str:
    """Return the version of the course; "unknown" if it was copied and not installed."""
    return _about(ROOT)[0]


def repository_address() -> str | None:
    """Return the address of the course's repository; None if the course was copied and not installed."""
    return _about(ROOT)[1].get("repository")


def book_address() -> str | None:
    """Return the address of the web book: the project's documentation URL, else GitHub Pages of its repository."""
    urls = _about(ROOT)[1]
    if "documentation" in urls:
        return urls["documentation"].rstrip("/")
    repository = urlsplit(urls.get("repository", ""))
    owner, _, name = repository.path.strip("/").partition("/")
    return f"https://{owner.lower()}.github.io/{name}" if repository.netloc == "github.com" and name else None


def page_of(mistake: str | None) -> str | None:
    """Return the address of the book's page on a mistake; None without a mistake or if the address is unknown."""
    return f"{book_address()}/mistakes/{mistake}.html" if mistake and book_address() else None


@cache
def _about(root: Path) -> tuple[str, dict[str, str]]:
    """Return version and addresses; those of a clone come first, because installed metadata may be older."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        if project["name"] == DISTRIBUTION:
            return project["version"], {name.lower(): url for name, url in project["urls"].items()}
    except (OSError, tomllib.TOMLDecodeError, KeyError):
        pass
    try:
        installed = metadata.metadata(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown", {}
    pairs = (line.partition(", ") for line in installed.get_all("Project-URL") or ())
    return installed["Version"], {name.lower(): url for name, _, url in pairs}
