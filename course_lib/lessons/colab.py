"""Colab, as far as it can be had elsewhere: its packages, its module, its empty folder, and the repository to clone."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

from course_lib.lessons.address import Address

COLAB_LIST = Path("tests/versions/colab-2026-08.txt")
STAND_IN = Path("tests/versions/stand_in")
LAUNCHER = "colab_kernel_launcher"  # the module of the stand-in that starts a kernel
DISTRIBUTION = "attention-course"

_PIN = re.compile(r"([\w.-]+)==([\w.]+)")
_PYTHON = re.compile(r"Python (\d+\.\d+\.\d+)")


def read_list(path: Path) -> dict[str, str]:
    """Read a list of Colab's packages: the version of each, by its name, and ``python`` from the comment above.

    Raises:
        ValueError: a line is neither a comment nor a pin, or no comment names the Python.
    """
    versions = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        python, pin = _PYTHON.search(line), _PIN.fullmatch(line.strip())
        if line.startswith("#"):
            versions |= {"python": python[1]} if python else {}
        elif pin:
            versions[pin[1]] = pin[2]
        elif line.strip():
            raise ValueError(f"{path.name} holds the line {line!r}: write each package as name==version.")
    if "python" not in versions:
        raise ValueError(f"{path.name} names no Python: write it into the comment on top, such as Python 3.13.15.")
    return versions


def unlisted(listed: dict[str, str], installed: dict[str, str]) -> list[str]:
    """Say which packages are not the listed ones; of Python the first two numbers count."""
    problems = []
    for name, version in listed.items():
        have = installed.get(name.replace("_", "-"), "missing").partition("+")[0]  # 2.11.0+cpu is 2.11.0
        if have != version and not (name == "python" and have.split(".")[:2] == version.split(".")[:2]):
            problems.append(f"{name} is {have}, and {version} in Colab's list")
    return problems


def put_stand_in(root: Path, python: Path) -> None:
    """Put the stand-in for google.colab and its launcher into the environment of an interpreter."""
    ask = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    shutil.copytree(root / STAND_IN, packages, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


def serve_working_tree(root: Path, remote: Path, address: Address) -> str:
    """Store the working tree as the one commit of a new bare repository, under the ref that the setup cells name.

    What git ignores stays out; nothing is written into the repository itself.

    Returns:
        The new repository's URL.
    """
    ref = f"refs/heads/{address.ref}" if address.ref == "main" else f"refs/tags/{address.ref}"
    author = {f"GIT_{who}_{what}": "versions" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    there = {**os.environ, **author, "GIT_DIR": str(remote), "GIT_WORK_TREE": str(root)}

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=root, env=there, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(remote)], check=True)
    git("add", "--all")
    commit = git("commit-tree", git("write-tree"), "-m", "the working tree")
    git("config", "uploadpack.allowFilter", "true")  # pip asks for it
    git("update-ref", ref, commit)
    return remote.as_uri()


def git_settings(remote: str, address: Address) -> dict[str, str]:
    """Return the environment in which git fetches the course's GitHub address from ``remote`` instead."""
    count = int(os.environ.get("GIT_CONFIG_COUNT", "0"))
    return {
        "GIT_CONFIG_COUNT": str(count + 1),
        f"GIT_CONFIG_KEY_{count}": f"url.{remote}.insteadOf",
        f"GIT_CONFIG_VALUE_{count}": f"https://github.com/{address.slug}",
        "GIT_TERMINAL_PROMPT": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",  # pip's advice on itself is none of the course's outputs
        "PIP_NO_COMPILE": "1",  # of a build environment that is thrown away: half of the setup cell's time
    }


def setup_notebook(address: Address) -> Any:
    """Make the notebook that tries the setup cell: course_lib is not there, set up twice, and where it is then."""
    from nbformat import v4

    absent = 'import importlib.util\nprint(importlib.util.find_spec("course_lib"))'
    place = "import course_lib\nprint(course_lib.__file__)"
    sources = (absent, address.setup_cell, address.setup_cell, place)
    return v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])


def setup_problems(notebook: Any, before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Say what is wrong with the setup cell, a sentence each.

    Args:
        notebook: :func:`setup_notebook`, executed.
        before: the packages of the environment before it ran.
        after: those after it.
    """
    absent, first, second, place = ("".join(map(_said, cell.outputs)).strip() for cell in notebook.cells)
    problems = []
    if absent != "None":
        problems.append(f"course_lib was there before the setup cell: {absent}")
    for turn, said in (("", first), (" a second time", second)):
        if said:
            problems.append(f"the setup cell, run{turn}, said: {said.splitlines()[-1]}")
    if "site-packages" not in place:
        found = place.splitlines()[-1] if place else "nowhere"
        problems.append(f"course_lib does not come from site-packages: {found}")
    for name in sorted((set(before) | set(after)) - {DISTRIBUTION}):
        if before.get(name) != after.get(name):
            problems.append(f"the setup cell changed {name}: {before.get(name)} before, {after.get(name)} after")
    return problems


def _said(output: Any) -> str:
    return f"{output.ename}: {output.evalue}" if output.output_type == "error" else output.get("text", "")
