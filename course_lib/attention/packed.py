"""Packed texts: several texts one after the other in one row, without padding, none of which may see another."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .checks import check_positive


def packed_keep(lengths: Sequence[int], *, device: torch.device | str | None = None) -> Tensor:
    """Each token may attend to the tokens of its own text.

        keep[q, k] = text_of[q] == text_of[k]

    The mask is made of squares along the diagonal, one per text. It hides no later token: the modules combine it with
    their causal mask, and for `attend` it is `packed_keep(lengths) & causal_keep(num_tokens)`, or causal=True.

    Args:
        lengths: number of tokens of each text, in their order in the row.
        device: device of the mask.

    Returns:
        (query, key), bool, True = may attend; as many tokens as all texts have together.

    Raises:
        ValueError: no length, or a length below 1.
        TypeError: a length that is not an integer.

    Source: Krell et al., "Efficient Sequence Packing without Cross-contamination: Accelerating Large Language Models
    without Impacting Performance", 2021, section 3.2.

    Example:
        >>> packed_keep([2, 1])
        tensor([[ True,  True, False],
                [ True,  True, False],
                [False, False,  True]])
    """
    text_of = _repeated(range(len(lengths)), lengths, device)  # (token,)
    return text_of[:, None] == text_of


def packed_positions(lengths: Sequence[int], *, device: torch.device | str | None = None) -> Tensor:
    """The position of each token in its own text: 0, 1, ... and 0 again where the next text begins.

    Args:
        lengths: number of tokens of each text, in their order in the row.
        device: device of the positions.

    Returns:
        (token,), integers, such as `LlamaAttention` takes as `positions`.

    Raises:
        ValueError, TypeError: as `packed_keep`.

    Source: Krell et al., 2021, section 3.2.

    Example:
        >>> packed_positions([3, 2])
        tensor([0, 1, 2, 0, 1])
    """
    starts = [sum(lengths[:text]) for text in range(len(lengths))]
    first = _repeated(starts, lengths, device)  # (token,): where the text of each token begins
    return torch.arange(len(first), device=device) - first


def _repeated(numbers: Sequence[int], lengths: Sequence[int], device: torch.device | str | None) -> Tensor:
    """The number of each text, as often as the text has tokens: (text,) -> (token,)."""
    if not len(lengths):
        raise ValueError("lengths is empty: give the number of tokens of each text, such as [5, 3].")
    for length in lengths:
        check_positive(**{"each of lengths": length})
    repeats = torch.tensor(lengths, device=device)
    return torch.tensor(numbers, device=device).repeat_interleave(repeats, output_size=sum(lengths))
