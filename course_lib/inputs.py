"""The four toy inputs that every lesson, picture and test of the course runs on."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class ToyInput(NamedTuple):
    """Words and the numbers that stand for them.

    Attributes:
        words: one word a token, the labels of every picture's rows and columns.
        embeddings: (token, d_in), one row a word.
        batch: (batch, token, d_in), what a module is called with.
    """

    words: tuple[str, ...]
    embeddings: Tensor
    batch: Tensor


def dream_big(*, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> ToyInput:
    """The sentence of the course, "Dream big and work for it": six tokens of three numbers, one sample.

    Args:
        dtype: of the embeddings; PyTorch's default floating dtype if None.
        device: where they are put; the CPU if None.

    Returns:
        ToyInput with embeddings (6, 3) and batch (1, 6, 3).

    Example:
        >>> dream_big().batch.shape
        torch.Size([1, 6, 3])
    """
    words = ("Dream", "big", "and", "work", "for", "it")
    rows = [
        [0.72, 0.45, 0.31],
        [0.75, 0.20, 0.55],
        [0.30, 0.80, 0.40],
        [0.85, 0.35, 0.60],
        [0.55, 0.15, 0.75],
        [0.25, 0.20, 0.85],
    ]
    return _toy_input(words, rows, dtype=dtype, device=device)


def three_rows(*, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> ToyInput:
    """Three tokens of six numbers; the batch holds the same sample twice.

    Both samples are equal, so a module must give both the same output; that samples are independent can't be
    seen on it.

    Args:
        dtype: of the embeddings; PyTorch's default floating dtype if None.
        device: where they are put; the CPU if None.

    Returns:
        ToyInput with embeddings (3, 6) and batch (2, 3, 6).
    """
    words = ("row 0", "row 1", "row 2")
    rows = [
        [0.43, 0.15, 0.89, 0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64, 0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10, 0.05, 0.80, 0.55],
    ]
    return _toy_input(words, rows, samples=2, dtype=dtype, device=device)


def kid_smiles(*, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> ToyInput:
    """ "The Kid Smiles": three tokens of six whole numbers, made to be followed by hand.

    Args:
        dtype: of the embeddings; PyTorch's default floating dtype if None.
        device: where they are put; the CPU if None.

    Returns:
        ToyInput with embeddings (3, 6) and batch (1, 3, 6).
    """
    words = ("The", "Kid", "Smiles")
    rows = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [1.0] * 6]
    return _toy_input(words, rows, dtype=dtype, device=device)


def four_by_six(*, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> ToyInput:
    """Four tokens of six numbers: the smallest matrix on which two heads of width three can be cut and stacked.

    Args:
        dtype: of the embeddings; PyTorch's default floating dtype if None.
        device: where they are put; the CPU if None.

    Returns:
        ToyInput with embeddings (4, 6) and batch (1, 4, 6).
    """
    words = ("token 0", "token 1", "token 2", "token 3")
    rows = [
        [0.7924, 0.4975, 0.5119, 0.4034, 0.6843, 0.3314],
        [0.9629, 0.7819, 0.5565, 0.5319, 0.2773, 0.2841],
        [0.3263, 0.7731, 0.5472, 0.6618, 0.3387, 0.6278],
        [0.7786, 0.0196, 0.0878, 0.0646, 0.6827, 0.6362],
    ]
    return _toy_input(words, rows, dtype=dtype, device=device)


def _toy_input(
    words: tuple[str, ...],
    rows: list[list[float]],
    *,
    samples: int = 1,
    dtype: torch.dtype | None,
    device: torch.device | str | None,
) -> ToyInput:
    embeddings = torch.tensor(rows, dtype=dtype or torch.get_default_dtype(), device=device)
    return ToyInput(words, embeddings, torch.stack([embeddings] * samples))  # (token, d_in) -> (batch, token, d_in)
