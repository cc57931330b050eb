"""Which folders of this machine Python needs to run: these are shown to students' code, and nothing else."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

INSIDE = Path(__file__).resolve().parent / "inside"
COURSE = Path(__file__).resolve().parents[2]
LIBRARIES = ("/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64", "/nix/store")
# One thread each: a process that forks must have no other, and a class is graded on all cores at once anyway.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def shown() -> list[str]:
    """The folders of Python, of what it has installed and of the system's libraries, without those within others.

    Of a prefix only lib and bin are taken: the prefix itself may be a home, a whole conda, or the course's own folder.
    """
    import numpy
    import safetensors
    import torch

    there = list(LIBRARIES)
    for prefix in (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix):
        there += [os.path.join(prefix, part) for part in ("bin", "lib", "lib64", "pyvenv.cfg")]
    there += [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    there += [os.path.dirname(os.path.realpath(sys.executable))]
    there += [str(Path(package.__file__).parents[1]) for package in (torch, numpy, safetensors)]
    there = {os.path.abspath(path) for path in there} | {os.path.realpath(path) for path in there}
    found: list[str] = []
    for path in sorted(there, key=len):
        if os.path.exists(path) and not any(within(path, folder) for folder in found):
            found.append(path)
    return found


def covered(hidden: list[str], seen: list[str]) -> list[str]:
    """Where folders that must not be seen would be seen: under each name that what is shown has for them.

    Raises:
        ValueError: one of them can't be covered.
    """
    found = []
    for path in dict.fromkeys(os.path.realpath(path) for path in hidden):
        for folder in seen:
            real = os.path.realpath(folder)
            if not within(path, real):
                continue
            if not os.path.isdir(path):  # nothing can be put over what isn't there, and it may come later
                raise ValueError(
                    f"{path} lies within {folder}, where Python is installed, and is no folder that could be hidden "
                    "from students' code: choose another place."
                )
            if not os.path.islink(folder):
                found.append(os.path.normpath(os.path.join(folder, os.path.relpath(path, real))))
    return list(dict.fromkeys(found))


def within(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return Path(path).is_relative_to(folder)
