"""Open JupyterLab on your own copies of the lessons. Other words go to jupyter lab.

With --sources it opens the clone's own notebooks instead, paired with the .py files that they are made from.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from course_lib.command.root import repository
from course_lib.workspace import FIRST_LESSON, FOLDERS

NAME, HELP = "lab", "open JupyterLab on the first lesson (--port N; other options go to jupyter lab)"
OWN_OPTIONS = True
NEEDS = ("lessons", "jupyterlab", "jupytext", "ipykernel")

# No request leaves the machine: no news, no look for updates, no catalogue of extensions. The log holds warnings only,
# and kernels encrypt what they send, because otherwise each warns that it doesn't.
QUIET = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
    "--Application.log_level=WARN",
    "--KernelManager.transport_encryption=auto",
)
# Where Jupyter, IPython and matplotlib write when they can't write at home.
AT_HOME = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, help="the port that JupyterLab listens on (its own choice from 8888 on)")
    parser.add_argument("--sources", action="store_true", help="open the clone's own notebooks, to change the course")


def run(args: argparse.Namespace) -> int:
    """Bring the copies up to date, or the pairs into step, and become JupyterLab."""
    from course_lib.command.start import bring_up_to_date, default_workspace

    if args.sources:
        root = repository()
        sync_lessons(root)
        first = f"notebooks/{FIRST_LESSON}"
    else:
        root, first = default_workspace(), f"{FOLDERS['']}/{FIRST_LESSON}"
        for sentence in bring_up_to_date(root):
            print(sentence)
    install_missing_kernels()
    for name, folder in folders_for_home().items():
        os.environ.setdefault(name, folder)
    command = lab_command(root, first, args.port, args.rest)
    sys.stdout.flush()
    if os.name == "nt":  # Windows' exec gives the prompt back while the server runs
        return subprocess.call(command, cwd=root)
    os.chdir(root)
    os.execv(command[0], command)
    return 0  # reached only where a test has replaced execv


def lab_command(root: Path, first: str, port: int | None, rest: list[str]) -> list[str]:
    """Return the command line that starts JupyterLab on a folder and, if it is there, on its first lesson."""
    command = [sys.executable, "-m", "course_lib.command.lab_server", f"--ServerApp.root_dir={root}", *QUIET]
    if port is not None:
        command += [f"--port={port}", "--ServerApp.port_retries=0"]
    if (root / first).exists():
        command.append(f"--LabApp.default_url=/lab/tree/{first}")
    if is_root() and not any(word.startswith("--allow-root") for word in rest):
        print("You are root, as in a container: JupyterLab runs with --allow-root.")
        command.append("--allow-root")
    if not has_display():
        command.append("--no-browser")
    return command + rest


def is_root() -> bool:
    """Say whether JupyterLab would refuse to start without being told that root is meant."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def has_display() -> bool:
    """Say whether a browser window could open; without one, a text browser would take the terminal."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def folders_for_home() -> dict[str, str]:
    """Return folders to write to, by the variables that name them, where the home can't be written; else nothing."""
    home = Path.home()
    if home.is_dir() and os.access(home, os.W_OK):
        return {}
    folder = Path(tempfile.gettempdir()) / f"attention-course-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    print(f"Your home {home} can't be written: JupyterLab keeps its settings in {folder}.")
    return {name: str(folder / name.lower()) for name in AT_HOME}


def install_missing_kernels() -> None:
    """Install the course's kernels where this Python does not have them."""
    from course_lib.command.kernels import write_lab_settings
    from course_lib.lessons.kernels import install_kernels, kernels_ready

    if kernels_ready():
        return
    try:
        install_kernels()
        write_lab_settings(sys.prefix)
    except OSError as error:  # an environment that belongs to somebody else: the kernel Python 3 does the same
        print(f"The kernels could not be added ({error}): the kernel Python 3 teaches on the CPU, too.")


def sync_lessons(root: Path) -> None:
    """Bring every pair into step and say what had to be done."""
    from course_lib.lessons.discover import LESSONS, SOLUTIONS, find_notebooks
    from course_lib.lessons.pairs import sync

    for lesson in find_notebooks(root, folders=(LESSONS, SOLUTIONS)):  # exercises are made from the solutions
        try:
            said = sync(lesson)
        except Exception as error:  # a half-edited file must not keep the others from opening
            said = f"{lesson.name}: left as it is, because a file can't be read ({type(error).__name__}: {error})."
        if said:
            print(said)
