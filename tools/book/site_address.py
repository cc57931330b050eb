"""Where the web book is published: GitHub Pages of the repository, unless pyproject.toml names another site."""

import tomllib
from pathlib import Path

from tools.notebooks import read_address


def read_site(root: Path) -> str:
    """Return the address of the published book's front page, with a slash at its end.

    It is `https://OWNER.github.io/REPO/`, where GitHub Pages serves the repository of pyproject.toml. A book with a
    domain of its own states it there too, as `Documentation` under `[project.urls]`.

    Raises:
        ValueError: The stated address is not an https address.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    owner, name = read_address(root).slug.split("/")
    host = f"{owner.lower()}.github.io"
    site = project["urls"].get("Documentation") or f"https://{host}/{'' if name.lower() == host else f'{name}/'}"
    if not site.startswith("https://"):
        raise ValueError(f"pyproject.toml has Documentation = {site!r}: write an address that begins with https://.")
    return site.rstrip("/") + "/"
