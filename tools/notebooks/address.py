"""Read the repository's address from pyproject.toml and derive links and setup cells from it."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

SETUP_CELL = """\
# @title Setup: installs the course where it is missing; elsewhere it does nothing
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("course_lib") is None:
    address = "git+https://github.com/{slug}@{ref}"
    install = [sys.executable, "-m", "pip", "install", "-q"]
    if subprocess.run([*install, "attention-course[models] @ " + address]).returncode:
        raise RuntimeError(
            "The course could not be installed: "
            "switch the internet on and run this cell again."
        )"""


@dataclass(frozen=True)
class Address:
    """The address of the course: `owner/name` on GitHub, and the git ref that its links lead to."""

    slug: str
    ref: str

    @property
    def setup_cell(self) -> str:
        """Return the source of the first code cell of every notebook."""
        return SETUP_CELL.format(slug=self.slug, ref=self.ref)

    def colab(self, lesson: str) -> str:
        """Return the address that opens a notebook in Colab."""
        return f"https://colab.research.google.com/github/{self.slug}/blob/{self.ref}/notebooks/{lesson}.ipynb"


def read_address(root: Path) -> Address:
    """Read the address from a repository's pyproject.toml.

    The ref is `main` while the version is a `.dev` one, and the tag `v{version}` of a release.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    slug = project["urls"]["Repository"].removeprefix("https://github.com/").strip("/")
    return Address(slug, "main" if ".dev" in version else f"v{version}")
