"""Every notebook with other versions: those of Colab, the oldest that are allowed, the newest there are.

`nox` runs all three in fresh environments of about 5 GB each; `nox -s oldest -- 01` takes one of them and the notebooks
of one lesson. `course test-versions` does the same and removes each environment before the next one is made.
"""

import sys
import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True

COLAB_PACKAGES = Path("tools/versions/colab-2026-08.txt")
NEEDED = ("-r", "pyproject.toml", "--extra", "lessons")
PROJECT = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]


@nox.session(python="3.13", venv_params=["--seed"])  # with pip, which the setup cell calls
def colab(session: nox.Session) -> None:
    """Colab's packages; the course comes from the setup cell of each notebook."""
    session.install("-r", str(COLAB_PACKAGES))
    before = packages(session)
    run_notebooks(session, "--as-colab")
    if packages(session) != before:
        session.error("the setup cell changed packages of the environment other than the course")


@nox.session(python="3.11")
def oldest(session: nox.Session) -> None:
    """The oldest version that pyproject.toml allows of each package."""
    session.install("--resolution", "lowest-direct", *NEEDED)
    session.install("--no-deps", ".")
    run_notebooks(session)


@nox.session(python="3.14")
def newest(session: nox.Session) -> None:
    """The newest version that pyproject.toml allows of each package."""
    session.install("--upgrade", *NEEDED)
    session.install("--no-deps", ".")
    run_notebooks(session)


def run_notebooks(session: nox.Session, *options: str) -> None:
    """Compare the notebooks with what is stored, from this Python, in kernels of the session's Python."""
    python = str(Path(session.bin) / "python")
    session.run(sys.executable, "-m", "tools.versions", *options, python, *session.posargs, external=True)


def packages(session: nox.Session) -> set[str]:
    """Return the environment's packages with their versions, without the course."""
    listed = session.run("uv", "pip", "freeze", external=True, silent=True) or ""
    return {line for line in listed.splitlines() if not line.startswith(PROJECT["name"])}
