"""The course's Jupyter kernels: the same Python, told by COURSE_DEVICE which device to teach on."""

import json
import shutil
import sys
from pathlib import Path

KERNELS = {"attention-cpu": ("Attention (CPU)", "cpu"), "attention-cuda": ("Attention (CUDA)", "cuda")}


def sees_gpu() -> bool:
    """Say whether PyTorch can use a GPU here."""
    import torch

    return torch.cuda.is_available()


def kernels_ready(prefix: str = sys.prefix, *, gpu: bool = False) -> bool:
    """Say whether the kernels are installed and start this very Python.

    Args:
        prefix: where they are looked for.
        gpu: whether the CUDA kernel has to be among them.
    """
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
    """Install the kernels and return the folder that holds them.

    Args:
        prefix: where to install them.
        gpu: whether the CUDA kernel is offered; None asks PyTorch whether it sees a GPU. Without one it would only be
            a way to a first cell that fails, so an old one is taken away.
    """
    from ipykernel.kernelspec import install

    gpu = sees_gpu() if gpu is None else gpu
    for name, (title, device) in KERNELS.items():
        if device == "cuda" and not gpu:
            shutil.rmtree(_kernel_folder(prefix) / name, ignore_errors=True)
        else:
            install(prefix=prefix, kernel_name=name, display_name=title, env={"COURSE_DEVICE": device})
    return _kernel_folder(prefix)


def _kernel_folder(prefix: str) -> Path:
    return Path(prefix) / "share" / "jupyter" / "kernels"
