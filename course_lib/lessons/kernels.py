"""The course's two Jupyter kernels: the same Python, told by COURSE_DEVICE which device to teach on."""

import json
import sys
from pathlib import Path

KERNELS = {"attention-cpu": ("Attention (CPU)", "cpu"), "attention-cuda": ("Attention (CUDA)", "cuda")}


def kernels_ready(prefix: str = sys.prefix) -> bool:
    """Say whether both kernels are installed and start this very Python."""
    for name in KERNELS:
        try:
            spec = json.loads((_kernel_folder(prefix) / name / "kernel.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        if Path(spec.get("argv", [""])[0]).parent != Path(sys.executable).parent:
            return False
    return True


def install_kernels(prefix: str = sys.prefix) -> Path:
    """Install both kernels under ``prefix`` and return the folder that holds them."""
    from ipykernel.kernelspec import install

    for name, (title, device) in KERNELS.items():
        install(prefix=prefix, kernel_name=name, display_name=title, env={"COURSE_DEVICE": device})
    return _kernel_folder(prefix)


def _kernel_folder(prefix: str) -> Path:
    return Path(prefix) / "share" / "jupyter" / "kernels"
