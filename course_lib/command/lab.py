"""Open JupyterLab on the first lesson, with both files of every lesson in step. Other words go to jupyter lab."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from course_lib.command.root import repository

NAME, HELP = "lab", "open JupyterLab on the first lesson (--port N; other options go to jupyter lab)"
OWN_OPTIONS = True

FIRST_LESSON = "notebooks/00_start_here.ipynb"

# No request leaves the machine: no news, no look for updates, no catalogue of extensions.
QUIET = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, help="the port that JupyterLab listens on (its own choice from 8888 on)")


def run(args: argparse.Namespace) -> int:
    """Bring the pairs into step and become JupyterLab."""
    from course_lib.command.kernels import write_lab_settings
    from course_lib.lessons.kernels import install_kernels, kernels_ready

    root = repository()
    sync_lessons(root)
    if not kernels_ready():
        install_kernels()
        write_lab_settings(sys.prefix)
    command = lab_command(root, args.port, args.rest)
    if os.name == "nt":  # Windows' exec gives the prompt back while the server runs
        return subprocess.call(command, cwd=root)
    os.chdir(root)
    sys.stdout.flush()
    os.execv(command[0], command)
    return 0  # reached only where a test has replaced execv


def lab_command(root: Path, port: int | None, rest: list[str]) -> list[str]:
    """Return the command line that starts JupyterLab on the first lesson, or on the repository while there is none."""
    first = root / FIRST_LESSON
    command = [sys.executable, "-m", "course_lib.lessons.quick_start", f"--ServerApp.root_dir={root}", *QUIET]
    if port is not None:
        command += [f"--port={port}", "--ServerApp.port_retries=0"]
    if first.exists():
        command.append(f"--LabApp.default_url=/lab/tree/{FIRST_LESSON}")
    return command + rest


def sync_lessons(root: Path) -> None:
    """Bring every pair into step and say what had to be done."""
    from course_lib.lessons.discover import LESSONS, SOLUTIONS, find_notebooks
    from course_lib.lessons.pairs import sync

    for lesson in find_notebooks(root, folders=(LESSONS, SOLUTIONS)):  # exercises are the learner's own
        try:
            said = sync(lesson)
        except Exception as error:  # a half-edited file must not keep the others from opening
            said = f"{lesson.name}: left as it is, because a file can't be read ({type(error).__name__}: {error})."
        if said:
            print(said)
