"""The small course on a stripped machine, and the real one on a clean Debian."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from .small_course import make_course
from .stripped import path_of


@dataclass
class Beginner:
    """Somebody with a clone, a home, and what is on the PATH.

    Attributes:
        course: the clone.
        wheels: where pip finds packages.
        path: the folder of programs.
        home: the home folder.
    """

    course: Path
    wheels: Path
    path: Path
    home: Path

    def command(self, *words, before=(), **variables):
        """Return the words that type `make` with some words, and how a process starts them."""
        environment = {
            "PATH": str(self.path),
            "HOME": str(self.home),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            **variables,
        }
        command = [*before, "env", "-i", *(f"{name}={value}" for name, value in environment.items()), "make", *words]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return command, {"cwd": self.course, **streams}

    def make(self, *words, before=(), **variables):
        """Type `make` and the words; stdout of the finished process holds stderr, too."""
        command, how = self.command(*words, before=before, **variables)
        return subprocess.run(command, **how, timeout=180)

    @property
    def environment(self):
        return self.course / ".venv"

    def has(self, module):
        """Whether a module can be imported in the environment."""
        python = self.environment / "bin" / "python"
        return python.exists() and subprocess.run([python, "-c", f"import {module}"], cwd="/").returncode == 0


def new_beginner(folder):
    """A clone in a new folder on a machine with make and a Python."""
    course, wheels = make_course(folder / "clone")
    (folder / "home").mkdir()
    return Beginner(course, wheels, path_of(folder / "bin", "python3"), folder / "home")


@pytest.fixture
def beginner(tmp_path):
    """Somebody who has just cloned."""
    return new_beginner(tmp_path)


@pytest.fixture(scope="session")
def installed_once(tmp_path_factory):
    """The environment that one set-up made, for all tests to copy."""
    beginner = new_beginner(tmp_path_factory.mktemp("installed"))
    done = beginner.make("set-up-lessons")
    assert done.returncode == 0, done.stdout
    return beginner.environment


@pytest.fixture
def settled(beginner, installed_once):
    """Somebody whose `make lab` worked already."""
    shutil.copytree(installed_once, beginner.environment, symlinks=True)
    return beginner
