"""The repository's address: read from pyproject.toml, carried to every link, badge and setup cell."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

_OWNER_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_SLUG = r"[\w.-]+/[\w.-]+?"
_PART = r"[\w.-]+?"
_HUB = (
    rf"(git-pull\?repo=https%3A%2F%2Fgithub\.com%2F){_PART}%2F{_PART}"
    rf"(&branch=)[\w.-]+(&urlpath=lab%2Ftree%2F){_PART}%2F"
)

SETUP_CELL = """\
# @title Setup: installs the course where it is missing (Colab, Kaggle, a bare Jupyter); elsewhere it does nothing
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("course_lib") is None:
    course = "attention-course[models] @ {pip}"
    if subprocess.run([sys.executable, "-m", "pip", "install", "-q", course]).returncode:
        raise RuntimeError("The course could not be installed: switch the internet on and run this cell again.")"""


def _book(slug: str) -> str:
    """The address of the web book, on GitHub Pages."""
    owner, name = slug.split("/")
    return f"https://{owner.lower()}.github.io/{name}"


@dataclass(frozen=True)
class Address:
    """Where the course lives: ``owner/name``, and the git ref that its links point at."""

    slug: str
    ref: str

    @property
    def setup_cell(self) -> str:
        """The source of the first code cell of every lesson."""
        return SETUP_CELL.format(pip=f"git+https://github.com/{self.slug}@{self.ref}")

    def colab(self, lesson: str) -> str:
        """The address that opens a lesson in Colab."""
        return f"https://colab.research.google.com/github/{self.slug}/blob/{self.ref}/notebooks/{lesson}.ipynb"

    def rewrite(self, text: str, old_slug: str | None = None) -> str:
        """Return a text with every address of this repository made right.

        Links to Colab, Binder and a hub, workflow badges and the setup cell's pip line are ours whoever's name they
        bear; other links are ours when they bear ``old_slug`` or the present one.
        """
        slug, ref = self.slug, self.ref
        colab = rf"(colab\.research\.google\.com/github/){_SLUG}/blob/[^/\s]+/"
        text = re.sub(colab, rf"\g<1>{slug}/blob/{ref}/", text)
        text = re.sub(rf"(mybinder\.org/v2/gh/){_SLUG}/[^?/\s)\"]+", rf"\g<1>{slug}/{ref}", text)
        there = rf"\g<1>{slug.replace('/', '%2F')}\g<2>{ref}\g<3>{slug.split('/')[1]}%2F"
        text = re.sub(_HUB, there, text)
        text = re.sub(rf"(git\+https://github\.com/){_SLUG}@[\w./-]+", rf"\g<1>{slug}@{ref}", text)
        text = re.sub(rf"(github\.com/){_SLUG}(/actions/workflows/)", rf"\g<1>{slug}\g<2>", text)
        text = re.sub(r"(/badge\.svg\?branch=)[\w./-]+", rf"\g<1>{ref}", text)
        for mine in {old_slug or slug, slug}:
            there = rf"(github(?:usercontent)?\.com/){re.escape(mine)}(?![\w-]|\.(?!git\b)\w)"
            text = re.sub(there, rf"\g<1>{slug}", text)
            text = re.sub(rf"{re.escape(_book(mine))}(?![\w-]|\.\w)", _book(slug), text)
        here = rf"(github\.com/{re.escape(slug)}"
        archive = f"refs/{'heads' if ref == 'main' else 'tags'}/{ref}.zip"
        text = re.sub(rf"{here}/archive/)refs/(?:heads|tags)/[^/\s\"]+\.zip", rf"\g<1>{archive}", text)
        return re.sub(rf"{here}/(?:blob|tree|raw)/)[^/\s)\"]+", rf"\g<1>{ref}", text)


def read_address(root: Path) -> Address:
    """Read the address and the version from a repository's pyproject.toml.

    The ref is ``main`` while the version is a ``.dev`` one, afterwards the tag ``v{version}``.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = project["version"]
    slug = project["urls"]["Repository"].removeprefix("https://github.com/").strip("/")
    return Address(slug, "main" if ".dev" in version else f"v{version}")


def set_address(root: Path, slug: str) -> None:
    """Write ``owner/name`` into pyproject.toml.

    Raises:
        ValueError: the slug is not of the form ``owner/name``.
    """
    if not _OWNER_NAME.fullmatch(slug):
        raise ValueError(f"{slug!r} is not an address of the form owner/name, such as ada/attention-course.")
    path = root / "pyproject.toml"
    line = re.compile(r'^(Repository = "https://github\.com/)[^"]+(")$', re.MULTILINE)
    path.write_text(line.sub(rf"\g<1>{slug}\g<2>", path.read_text(encoding="utf-8")), encoding="utf-8")


def files_with_addresses(root: Path) -> list[Path]:
    """List the files that may name the repository; pyproject.toml, the source, is not among them."""
    patterns = (
        *("*.md", "*.cff", "environment.yml", ".devcontainer/*"),
        *(".github/**/*.md", ".github/**/*.yml", "course_lib/**/*.md", "book/**/*.md"),
    )
    found = [path for pattern in patterns for path in root.glob(pattern)]
    for notebooks in (root / "notebooks").rglob("*"):
        if notebooks.suffix in (".ipynb", ".py", ".md") and ".ipynb_checkpoints" not in notebooks.parts:
            found.append(notebooks)
    # every .ipynb before the .py, so that the .py is the newer one of each pair
    return sorted(set(found), key=lambda path: (path.suffix == ".py", path))


def rewrite_all(root: Path, old_slug: str | None = None, *, write: bool = True) -> list[Path]:
    """Make every address right and return the files that were off; with ``write=False`` only say which."""
    address = read_address(root)
    off = []
    for path in files_with_addresses(root):
        text = path.read_text(encoding="utf-8")
        right = address.rewrite(text, old_slug)
        if right != text:
            off.append(path)
            if write:
                path.write_text(right, encoding="utf-8", newline="\n")
    return off
