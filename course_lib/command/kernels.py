"""Install the two Jupyter kernels into this Python, and let JupyterLab open a lesson's .py as a notebook."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

NAME, HELP = "kernels", "install the kernels attention-cpu and attention-cuda into this Python"
OWN_OPTIONS = True

# The pair of a lesson opens as a notebook from either file; JupyterLab asks no server for news or updates.
LAB_SETTINGS = {
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"python": "Jupytext Notebook"}},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/filebrowser-extension:browser": {"showLastModifiedColumn": False},  # room for the lessons' names
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prefix", default=sys.prefix, help="install under this folder instead of this Python's own")


def run(args: argparse.Namespace) -> int:
    """Install kernels and settings; say so in two lines."""
    from course_lib.lessons.kernels import KERNELS, install_kernels
    from course_lib.lessons.quiet_nbgrader import quiet_nbgrader

    quiet_nbgrader(args.prefix)
    folder = install_kernels(args.prefix)
    print(f"Kernels {' and '.join(KERNELS)} are in {folder}")
    print(f"JupyterLab opens lessons' .py as notebooks: {write_lab_settings(args.prefix)}")
    return 0


def write_lab_settings(prefix: str) -> Path:
    """Merge the course's settings into JupyterLab's defaults under a prefix; others stay as they are."""
    path = Path(prefix) / "share" / "jupyter" / "lab" / "settings" / "overrides.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    present = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(_merged(present, LAB_SETTINGS), indent=2) + "\n", encoding="utf-8")
    return path


def _merged(present: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    both = dict(present)
    for key, value in wanted.items():
        old = both.get(key)
        both[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return both
