"""The sets of versions that the course is tried with, and the making of a fresh environment for one."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from course_lib.lessons.colab import COLAB_LIST, DISTRIBUTION

NEEDED = 8_000_000_000  # bytes: an environment with PyTorch's CUDA build takes about 5 GB, and its parts are unpacked
_RECIPE = "recipe.json"  # in an environment that is complete: what it was made from


class FolderRefused(Exception):
    """No environment can stand in a folder; the message is one sentence that says why and what to do."""


class EnvironmentFailed(Exception):
    """uv could not do its part; the message is one sentence."""


@dataclass(frozen=True)
class VersionSet:
    """A set of versions: its name, its Python, and how uv is told to choose; None is Colab's list."""

    name: str
    python: str
    resolution: str | None = None

    def requirements(self, root: Path) -> list[str]:
        """Return the words after ``uv pip install`` that choose every version; the course itself comes later."""
        if self.resolution is None:
            return ["-r", str(root / COLAB_LIST)]
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        extras = project["optional-dependencies"]
        needed = [*project["dependencies"], *extras["models"], *extras["lessons"]]
        return ["--resolution", self.resolution, *(line for line in needed if not line.startswith(project["name"]))]


COLAB = VersionSet("colab", "3.13")
OLDEST = VersionSet("oldest", "3.11", "lowest-direct")
NEWEST = VersionSet("newest", "3.14", "highest")
SETS = (COLAB, OLDEST, NEWEST)


def choose_sets(names: list[str]) -> list[VersionSet]:
    """Return the sets of these names, in the usual order; all of them for an empty list.

    Raises:
        ValueError: there is no such set; the message lists those there are.
    """
    there = [each.name for each in SETS]
    for name in names:
        if name not in there:
            raise ValueError(f"There is no set of versions {name!r}; the sets are: {', '.join(there)}.")
    return [each for each in SETS if not names or each.name in names]


def python_of(environment: Path) -> Path:
    """Return an environment's interpreter."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_environment(environment: Path, chosen: VersionSet, root: Path, *, cpu: bool = False) -> None:
    """Make a fresh environment, or keep the one that stands there if it was made from the same requirements.

    Args:
        environment: its folder.
        chosen: the set.
        root: the repository's root.
        cpu: take PyTorch's CPU build, which is smaller, wherever the platform has several.

    Raises:
        FolderRefused: the disk is too full, or the folder holds something else.
        EnvironmentFailed: uv can't make it.
    """
    words = [*chosen.requirements(root), *(["--torch-backend", "cpu"] if cpu else [])]
    listed = (root / COLAB_LIST).read_text(encoding="utf-8") if chosen == COLAB else None
    recipe = json.dumps([chosen.python, words, listed])
    stamp = environment / _RECIPE
    if stamp.exists() and stamp.read_text(encoding="utf-8") == recipe:
        return
    check_folder(environment)
    uv(["venv", "--quiet", "--seed", "--clear", "--python", find_python(chosen.python), str(environment)], chosen)
    upgrade = ["--upgrade"] if chosen.resolution == "highest" else []
    uv(["pip", "install", "--quiet", *upgrade, "--python", str(python_of(environment)), *words], chosen)
    stamp.write_text(recipe, encoding="utf-8")


def check_folder(environment: Path) -> None:
    """Make a folder for an environment, or refuse one that holds something else, or whose disk is too full."""
    if environment.exists() and any(environment.iterdir()) and not (environment / "pyvenv.cfg").exists():
        raise FolderRefused(f"{environment} holds something that is no environment: name another folder with --keep.")
    environment.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(environment).free
    if free < NEEDED:
        raise FolderRefused(
            f"{environment.parent} has {free / 1e9:.1f} GB free and an environment needs {NEEDED / 1e9:.0f} GB: free "
            "some (`uv cache clean` may help), or name a folder on another disk with --keep."
        )


def find_python(version: str) -> str:
    """Return the path of an interpreter that starts, or just the version, for uv to find it or fetch it."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = [Path(folder) / f"python{version}" for folder in os.environ.get("PATH", "").split(os.pathsep)]
    for candidate in [sys.executable, *on_path, *pyenv.glob(f"{version}.*/bin/python")]:
        ask = [str(candidate), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        try:  # a shim of pyenv is there for every version and starts only the chosen ones
            said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        if said.strip() == version:
            return str(candidate)
    return version


def uv(words: list[str], chosen: VersionSet) -> str:
    """Run uv, whose own messages are shown, and return what it prints."""
    done = subprocess.run([sys.executable, "-m", "uv", *words], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise EnvironmentFailed(f"uv could not make the environment of the set {chosen.name}; its message is above.")
    return done.stdout


def installed(environment: Path, chosen: VersionSet) -> dict[str, str]:
    """Return the version of every package in an environment, by its name; ``python`` is among them."""
    listed = uv(["pip", "list", "--quiet", "--format", "json", "--python", str(python_of(environment))], chosen)
    found = {each["name"].lower(): each["version"] for each in json.loads(listed)}
    ask = [str(python_of(environment)), "-c", "import platform; print(platform.python_version())"]
    found["python"] = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    return found


def install_course(environment: Path, chosen: VersionSet, source: str) -> None:
    """Install the course alone, from its working tree, over the one that may be there."""
    python = str(python_of(environment))
    uv(["pip", "install", "--quiet", "--no-deps", "--reinstall", "--python", python, source], chosen)


def remove_course(environment: Path, chosen: VersionSet) -> None:
    """Take the course out of an environment, if it is there."""
    uv(["pip", "uninstall", "--quiet", "--python", str(python_of(environment)), DISTRIBUTION], chosen)
