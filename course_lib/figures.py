"""Draws the pictures in figures/: each from a real run of the library, none by hand."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import torch

from course_lib.attention import MultiHeadAttention
from course_lib.inputs import dream_big
from course_lib.pictures import Picture, head_heatmaps


def two_heads() -> Picture:
    """Two heads of multi-head attention on "Dream big and work for it"."""
    words, _, x = dream_big()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = MultiHeadAttention(3, 4, num_heads=2)
    with torch.no_grad():
        module.q_proj.weight *= 6.0  # as if trained: an untrained head looks at everything alike
        module.k_proj.weight *= 6.0
        _, weights = module(x, return_weights=True)
    return head_heatmaps(weights, words)


FIGURES: dict[str, Callable[[], Picture]] = {"two_heads": two_heads}


def main(arguments: list[str] | None = None) -> int:
    """Run `course figures`: draw every figure and say which file changed.

    Args:
        arguments: of the command line, without its name; those of the process if None.

    Returns:
        0.
    """
    parser = argparse.ArgumentParser(prog="course figures", description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("figures"), help="folder to write to (figures)")
    folder = parser.parse_args(arguments).to
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in FIGURES.items():
        path = folder / f"{name}.svg"
        before = path.read_text(encoding="utf-8") if path.exists() else None
        picture = draw()
        picture.save(path)
        print(f"{path}: {'unchanged' if picture.svg == before else 'written'}")
    return 0
