"""Install the course's Jupyter kernels into this Python, and JupyterLab's settings for the lessons.

`make lab` and `course lab` do this themselves. Use it if you start Jupyter in another way, such as in VS Code or on
a JupyterHub. The kernel Attention (CPU) is always installed, Attention (CUDA) only if PyTorch sees a GPU.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any

KERNELS = {"attention-cpu": ("Attention (CPU)", "cpu"), "attention-cuda": ("Attention (CUDA)", "cuda")}
LAB_SETTINGS = "share/jupyter/lab/settings/overrides.json"
_NBGRADER = ("formgrader", "validate_assignment", "assignment_list", "course_list")
SETTINGS: dict[str, dict[str, Any]] = {
    # The pair of a lesson opens as a notebook from either file; JupyterLab asks no server for news or updates.
    LAB_SETTINGS: {
        "@jupyterlab/docmanager-extension:plugin": {"defaultViewers": {"python": "Jupytext Notebook"}},
        "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
        "@jupyterlab/apputils-extension:themes": {"adaptive-theme": True},  # dark where the system is dark
        "@jupyterlab/filebrowser-extension:browser": {"showLastModifiedColumn": False},  # room for the names
    },
    # The course uses only nbgrader's preprocessors; its servers and menus would delay each start by a second.
    "etc/jupyter/jupyter_server_config.json": {
        "ServerApp": {"jpserver_extensions": {f"nbgrader.server_extensions.{name}": False for name in _NBGRADER}}
    },
    "etc/jupyter/labconfig/page_config.json": {"disabledExtensions": {"@jupyter/nbgrader": True}},
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the folder."""
    parser.add_argument("--prefix", default=sys.prefix, help="install under this folder instead of this Python's own")


def run(args: argparse.Namespace) -> int:
    """Install kernels and settings, and print where they are."""
    gpu = sees_gpu()
    folder = install_kernels(args.prefix, gpu=gpu)
    names = "attention-cpu and attention-cuda are" if gpu else "attention-cpu (PyTorch sees no GPU here) is"
    print(f"The kernel{'s' if gpu else ''} {names} in {folder}")
    print(f"JupyterLab's settings for the course are in {write_settings(args.prefix)}")
    return 0


def sees_gpu() -> bool:
    """Return whether PyTorch can use a GPU here."""
    import torch

    return torch.cuda.is_available()


def kernels_ready(prefix: str = sys.prefix, *, gpu: bool = False) -> bool:
    """Return whether the kernels, with `gpu` the CUDA kernel as well, are installed and start this very Python."""
    for name in KERNELS:
        path = _kernel_folder(prefix) / name / "kernel.json"
        if name == "attention-cuda" and not gpu and not path.exists():
            continue
        try:
            spec = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        if Path(spec.get("argv", [""])[0]).parent != Path(sys.executable).parent:
            return False
    return True


def install_kernels(prefix: str = sys.prefix, *, gpu: bool | None = None) -> Path:
    """Install the kernels below a prefix and return the folder that holds them.

    `gpu` is whether to install the CUDA kernel; None asks PyTorch whether it sees a GPU. Without a GPU the first cell
    would fail in it, so an installed CUDA kernel is removed.
    """
    from ipykernel.kernelspec import install

    gpu = sees_gpu() if gpu is None else gpu
    for name, (title, device) in KERNELS.items():
        if device == "cuda" and not gpu:
            shutil.rmtree(_kernel_folder(prefix) / name, ignore_errors=True)
        else:
            install(prefix=prefix, kernel_name=name, display_name=title, env={"COURSE_DEVICE": device})
    return _kernel_folder(prefix)


def ensure_kernels(*, gpu: bool = False) -> None:
    """Install the kernels if they are missing; `gpu` asks for the CUDA kernel as well."""
    if not kernels_ready(gpu=gpu):
        install_kernels(gpu=gpu or None)


def write_settings(prefix: str) -> Path:
    """Add the settings that are missing and return the path of JupyterLab's overrides."""
    for name, wanted in SETTINGS.items():
        path = Path(prefix) / name
        present = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if (both := _merged(wanted, present)) != present:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(both, indent=2) + "\n", encoding="utf-8")
    return Path(prefix) / LAB_SETTINGS


def _kernel_folder(prefix: str) -> Path:
    return Path(prefix) / "share" / "jupyter" / "kernels"


def _merged(wanted: dict[str, Any], present: dict[str, Any]) -> dict[str, Any]:
    both = wanted | present
    for key, old in present.items():
        if isinstance(old, dict) and isinstance(wanted.get(key), dict):
            both[key] = _merged(wanted[key], old)
    return both
