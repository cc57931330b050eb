"""Make requirements.lock from pyproject.toml: one version of every package, for every platform.

Use it after a change of versions in pyproject.toml. Versions in the lock stay while they fit.
"""

import argparse
import re
import subprocess
import sys

from course_lib.command import CourseError, repository

HEADER = """\
# Made by `make lock` from pyproject.toml, for every platform and Python 3.11 to 3.14. Do not edit by hand.
# PyTorch's own GPU packages are left out: pip installs those that the platform's build needs.
"""
_INSTALLED_BY_PYTORCH = re.compile(r"(nvidia-|cuda-|triton|pytorch-triton)")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--upgrade", action="store_true", help="move every package to its newest allowed version")


def run(args: argparse.Namespace) -> int:
    """Resolve with uv and print whether the lock changed."""
    path = repository() / "requirements.lock"
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--universal"]
    command += ["--python-version=3.11", "--no-header", "--no-annotate", "--quiet", f"--output-file={path.name}"]
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    done = subprocess.run([*command, *(["--upgrade"] if args.upgrade else [])], cwd=path.parent)
    if done.returncode:
        raise CourseError("uv could not resolve pyproject.toml; its own message is above, and the lock is unchanged.")
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("#") and not _INSTALLED_BY_PYTORCH.match(line)]
    after = HEADER + "\n".join(kept) + "\n"
    path.write_text(after, encoding="utf-8")
    changed = set(before.splitlines()) ^ set(after.splitlines())
    print(f"{path.name}: {f'{len(changed)} lines differ' if changed else 'unchanged'}")
    return 0
