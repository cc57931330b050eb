"""Open JupyterLab on the first lesson, in your own copies of the notebooks (the folder my_course).

Missing notebooks are copied first, and what you have written is kept. Options that are not listed here go to jupyter
lab. To change the course itself, --sources opens the clone's own notebooks, paired with the .py files they are made of.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import urlopen

from course_lib.workspace import FIRST_LESSON, FOLDERS

from .clone import import_tool, repository

# No request leaves the machine: no news, no search for updates, no catalogue of extensions. Only warnings are logged.
# Kernels encrypt their messages, because otherwise each of them warns that it does not.
QUIET = (
    "--LabApp.news_url=None",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.extension_manager=readonly",
    "--Application.log_level=WARN",
    "--KernelManager.transport_encryption=auto",
)
# Where Jupyter, IPython and matplotlib write if the home folder is not writable.
AT_HOME = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "MPLCONFIGDIR")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the port and the choice of the notebooks."""
    parser.add_argument("--port", type=int, help="the port that JupyterLab listens on (8888, or the next free one)")
    parser.add_argument("--sources", action="store_true", help="open the clone's own notebooks, to change the course")


def run(args: argparse.Namespace) -> int:
    """Update the copies, or synchronise the pairs of a clone, and replace this process with JupyterLab."""
    from .start import bring_up_to_date, default_workspace

    if args.sources:
        root = repository()
        import_tool("tools.notebooks").sync_all(root)
        first = f"notebooks/{FIRST_LESSON}"
    else:
        root, first = default_workspace(), f"{FOLDERS['']}/{FIRST_LESSON}"
        for sentence in bring_up_to_date(root):
            print(sentence)
    if (address := running_address(root, args.port)) is not None:
        print(f"The course is already open: {address}")
        return 0
    prepare_jupyter()
    for name, folder in folders_for_home().items():
        os.environ.setdefault(name, folder)
    command = lab_command(root, first, args.port, args.rest)
    sys.stdout.flush()
    if os.name == "nt":  # on Windows, exec would return to the prompt while the server runs
        return subprocess.call(command, cwd=root)
    os.chdir(root)
    os.execv(command[0], command)
    return 0  # reached only if a test has replaced execv


def running_address(root: Path, port: int | None) -> str | None:
    """Return the address of a JupyterLab that serves the folder, token included; None if there is none on the port."""
    from jupyter_core.paths import jupyter_runtime_dir

    for file in Path(jupyter_runtime_dir()).glob("jpserver-*.json"):
        try:
            server = json.loads(file.read_text(encoding="utf-8"))
            same = port in (None, server["port"]) and Path(server["root_dir"]).resolve() == root.resolve()
            if same and _answers(server["url"]):
                return f"{server['url']}lab?token={server['token']}"
        except (OSError, ValueError, KeyError):  # another version of Jupyter wrote it, or is writing it now
            continue
    return None


def _answers(url: str) -> bool:
    try:
        with urlopen(f"{url}api", timeout=2):
            return True
    except (OSError, ValueError):  # its file outlived it, or it asks for a certificate that is unknown here
        return False


def lab_command(root: Path, first: str, port: int | None, rest: list[str]) -> list[str]:
    """Return the command line that starts JupyterLab on a folder and, if it exists, on its first lesson."""
    command = [sys.executable, "-m", "course_lib.command.lab_server", f"--ServerApp.root_dir={root}", *QUIET]
    if port is not None:
        command += [f"--port={port}", "--ServerApp.port_retries=0"]
    if (root / first).exists():
        command.append(f"--LabApp.default_url=/lab/tree/{first}")
    if is_root() and not any(argument.startswith("--allow-root") for argument in rest):
        print("You are root, as in a container: JupyterLab runs with --allow-root.")
        command.append("--allow-root")
    if not has_display():
        command.append("--no-browser")
    return command + rest


def is_root() -> bool:
    """Return whether the user is root, for whom JupyterLab starts only with --allow-root."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def has_display() -> bool:
    """Return whether a browser window could open; without a display, a text browser would take the terminal."""
    return not sys.platform.startswith("linux") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def folders_for_home() -> dict[str, str]:
    """Return environment variables that name other folders to write to if the home folder is not writable."""
    home = Path.home()
    if home.is_dir() and os.access(home, os.W_OK):
        return {}
    folder = Path(tempfile.gettempdir()) / f"attention-course-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    print(f"Your home {home} can't be written: JupyterLab keeps its settings in {folder}.")
    return {name: str(folder / name.lower()) for name in AT_HOME}


def prepare_jupyter() -> None:
    """Install the course's kernels and settings, as far as this Python does not have them."""
    from .kernels import install_kernels, kernels_ready, write_settings

    ready = kernels_ready()
    try:
        if not ready:
            install_kernels()
        write_settings(sys.prefix)
    except OSError as error:  # the environment belongs to another user
        if not ready:
            print(f"The kernels could not be added ({error}): the kernel Python 3 teaches on the CPU, too.")
