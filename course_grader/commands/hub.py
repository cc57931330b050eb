"""Run the course on an existing JupyterHub: the page with the commands, and with --check what this hub lacks."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

from course_lib.about import repository_address
from course_lib.command import CourseError, install_hint, repository


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="check this machine instead; 1 if something is missing")


def run(args: argparse.Namespace) -> int:
    """Print the page, or a line for each check."""
    if not args.check:
        try:
            print((repository() / "book" / "hub.md").read_text(encoding="utf-8"))
        except CourseError:  # pip installs no such page
            page = f"{repository_address()}/blob/main/book/hub.md"
            print(f"The page is at {page}; course hub --check looks at this machine.")
        return 0
    missing = 0
    for what, problem in checks():
        print(f"{'missing' if problem else 'ok     '}  {what}{f': {problem}' if problem else ''}")
        missing += bool(problem)
    return 1 if missing else 0


def checks() -> Iterator[tuple[str, str | None]]:
    """Yield each requirement of a hub with what must be done, or with None if it is met."""
    yield "the course lies outside of students' homes", _outside_home(Path(__file__), Path.home())
    yield "the kernel attention-cpu", _kernels()
    yield "links hand the notebooks out (nbgitpuller)", _module("nbgitpuller", "pip install nbgitpuller")
    yield "grading (the extra teach)", _module("distributed", install_hint("teach"))
    yield "a sandbox for grading", (problem := _sandbox())
    if problem is None:
        from course_grader.sandbox import choose_isolation

        yield "a sandbox without a known hole", choose_isolation().warning()


def _outside_home(file: Path, home: Path) -> str | None:
    if home != Path("/root") and file.resolve().is_relative_to(home.resolve()):
        return f"{file.parents[1]} is in {home}, which others can't read: install it with the hub's own pip, without -e"
    return None


def _kernels() -> str | None:
    if importlib.util.find_spec("jupyter_client") is None:
        return f"Jupyter is not installed: {install_hint('lessons')}"
    from jupyter_client.kernelspec import KernelSpecManager

    installed = "attention-cpu" in KernelSpecManager().find_kernel_specs()
    return None if installed else f"attention-cpu not found: run `course kernels` with {sys.executable}"


def _module(name: str, remedy: str) -> str | None:
    return None if importlib.util.find_spec(name) else f"{name} is not installed: {remedy}"


def _sandbox() -> str | None:
    try:
        from course_grader.sandbox import choose_isolation
    except ImportError as error:
        return f"{error.name} is not installed: pip install 'attention-course[teach]'"
    try:
        choose_isolation()
    except ValueError as error:
        return str(error)
    return None
