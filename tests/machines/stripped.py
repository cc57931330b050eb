"""A machine without what machines usually have, made from this one: fewer programs, another Python, no network."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PYTHON = os.path.realpath(sys.executable)  # the one that a virtual environment was made with
VERSION = platform.python_version()
MADE, KEPT = f"1/3 making .venv with Python {VERSION}", f"1/3 keeping .venv with Python {VERSION}"
TOOLS = ("make", "sh")  # all that the README asks for, beside Python


def path_of(folder, *pythons):
    """Make a folder for PATH with make and this Python under the given names."""
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    for name in pythons:
        (folder / name).symlink_to(PYTHON)
    return folder


LIE = """
import os, platform, sys
del os.environ["PYTHONPATH"]
sys.executable = {name!r}
platform.python_version = lambda: {version!r}
"""


def python_saying(version, folder, name="python3"):
    """Put a Python into a folder of programs that works as the one that it is and says it is of another version."""
    lie = folder / f"{name}-says"
    lie.mkdir()
    (lie / "sitecustomize.py").write_text(LIE.format(name=str(folder / name), version=version))
    (folder / name).write_text(f'#!/bin/sh\nPYTHONPATH="{lie}" exec "{PYTHON}" "$@"\n')
    (folder / name).chmod(0o755)


def namespaces(*what):
    """The words before a command that give it namespaces of its own, or skip the test where the kernel refuses.

    Args:
        what: unshare's options, such as --net for a machine without a network.
    """
    words = ["unshare", *what] if os.geteuid() == 0 else ["unshare", "--map-root-user", *what]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip(f"this machine's kernel refuses `{' '.join(words)}`")
    return words


def with_mount(script, *what):
    """The words that run a line of shell, such as a mount, before the command, where only the command sees it."""
    return [*namespaces("--mount", *what), "sh", "-c", f'{script} && exec "$@"', "sh"]


def without_ensurepip():
    """The words that hide ensurepip, as Debian does where python3-venv is not installed."""
    found = Path(next(p for p in sys.path if (Path(p) / "ensurepip").exists())) / "ensurepip"
    return with_mount(f"mount -t tmpfs none '{found}'")


def steps(done):
    """What was said, without the lines of make itself."""
    return [line for line in done.stdout.splitlines() if not line.startswith("make: ")]
