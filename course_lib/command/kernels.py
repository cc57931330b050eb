"""Install the course's Jupyter kernels into this Python, and JupyterLab's settings for the lessons.

Attention (CPU) is what the kernel Python 3 does, too; Attention (CUDA) is installed where PyTorch sees a GPU.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

NAME, HELP = "kernels", "install the Jupyter kernels Attention (CPU) and, with a GPU, Attention (CUDA)"
OWN_OPTIONS = True
NEEDS = ("lessons", "ipykernel")

# The pair of a lesson opens as a notebook from either file; JupyterLab asks no server for news or updates.
LAB_SETTINGS = {
    "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"python": "Jupytext Notebook"}},
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/filebrowser-extension:browser": {"showLastModifiedColumn": False},  # room for the names
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--prefix", default=sys.prefix, help="install under this folder instead of this Python's own")


def run(args: argparse.Namespace) -> int:
    """Install kernels and settings; say so in two lines."""
    from course_lib.lessons.kernels import install_kernels, sees_gpu
    from course_lib.lessons.quiet_nbgrader import quiet_nbgrader

    quiet_nbgrader(args.prefix)
    gpu = sees_gpu()
    folder = install_kernels(args.prefix, gpu=gpu)
    names = "attention-cpu and attention-cuda are" if gpu else "attention-cpu (PyTorch sees no GPU here) is"
    print(f"The kernel{'s' if gpu else ''} {names} in {folder}")
    print(f"JupyterLab's settings for the course are in {write_lab_settings(args.prefix)}")
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
