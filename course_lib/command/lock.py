"""Make requirements.lock from pyproject.toml: the tested version of every package, for every platform."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from course_lib.command.root import CourseError, repository

NAME, HELP = "lock", "make requirements.lock again from pyproject.toml (--upgrade: newest versions)"
OWN_OPTIONS = True
NEEDS = ("dev", "uv")

HEADER = """\
# Made by `make lock` from pyproject.toml, for every platform and Python 3.11 to 3.14. Do not edit by hand.
# PyTorch's own GPU packages are left out: pip installs the ones that belong to the platform's build.
"""
_PYTORCH_BRINGS_IT = re.compile(r"(nvidia-|cuda-|triton|pytorch-triton)")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--upgrade", action="store_true", help="move every package to its newest allowed version")


def run(args: argparse.Namespace) -> int:
    """Resolve with uv; versions already in the lock are kept while they fit."""
    path = repository() / "requirements.lock"
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--universal"]
    command += ["--python-version=3.11", "--no-header", "--no-annotate", "--quiet", f"--output-file={path.name}"]
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    done = subprocess.run([*command, *(["--upgrade"] if args.upgrade else [])], cwd=path.parent)
    if done.returncode:
        raise CourseError("uv could not resolve pyproject.toml; its own message is above, and the lock is unchanged.")
    write_lock(path)
    changed = set(before.splitlines()) ^ set(path.read_text(encoding="utf-8").splitlines())
    print(f"{path.name}: {'unchanged' if not changed else f'{len(changed)} lines differ'}")
    return 0


def write_lock(path: Path) -> None:
    """Put the header on a fresh lock and take PyTorch's GPU packages out."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("#") and not _PYTORCH_BRINGS_IT.match(line)]
    path.write_text(HEADER + "\n".join(kept) + "\n", encoding="utf-8")
