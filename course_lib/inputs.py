"""The four small inputs that the lessons, pictures and tests of the course run on, and a text to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor


class ToyInput(NamedTuple):
    """Tokens, their embeddings, and a batch of them.

    Attributes:
        words: the token labels, one word per token.
        embeddings: (token, d_in), one row per token.
        batch: (batch, token, d_in), the input of a module.
    """

    words: tuple[str, ...]
    embeddings: Tensor
    batch: Tensor


def dream_big(*, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> ToyInput:
    """Return the sentence of the course, "Dream big and work for it", as six tokens of width 3 in one sample.

    Args:
        dtype: dtype of the embeddings; PyTorch's default floating-point dtype if None.
        device: device of the embeddings; the CPU if None.

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
    """Return three tokens of width 6, in a batch that holds the same sample twice.

    Because both samples are equal, they must have equal outputs, and the batch can't show that samples are independent.

    Args:
        dtype: dtype of the embeddings; PyTorch's default floating-point dtype if None.
        device: device of the embeddings; the CPU if None.

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
    """Return "The Kid Smiles" as three tokens of six integers, which are easy to follow by hand.

    Args:
        dtype: dtype of the embeddings; PyTorch's default floating-point dtype if None.
        device: device of the embeddings; the CPU if None.

    Returns:
        ToyInput with embeddings (3, 6) and batch (1, 3, 6).
    """
    words = ("The", "Kid", "Smiles")
    rows = [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [1.0] * 6]
    return _toy_input(words, rows, dtype=dtype, device=device)


def four_by_six(*, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> ToyInput:
    """Return four tokens of width 6, a small matrix on which two heads of width 3 can be split and stacked.

    Args:
        dtype: dtype of the embeddings; PyTorch's default floating-point dtype if None.
        device: device of the embeddings; the CPU if None.

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


def fables() -> str:
    """Return the 82 fables of Aesop in the words of Joseph Jacobs, 1894, 60 kB of English in the public domain.

    A title and a few paragraphs, each on a line of its own; an empty line separates two fables.

    Example:
        >>> fables().splitlines()[0]
        'The Cock and the Pearl'
    """
    file = Path(__file__).with_name("data") / "fables.txt"
    _, text = file.read_text(encoding="utf-8").split("\n\n", 1)  # without the note on where it comes from
    return text


def _toy_input(words: tuple[str, ...], rows: list[list[float]], samples: int = 1, **options: Any) -> ToyInput:
    embeddings = torch.tensor(rows, **options)
    return ToyInput(words, embeddings, torch.stack([embeddings] * samples))  # (token, d_in) -> (batch, token, d_in)
