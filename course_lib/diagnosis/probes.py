"""Questions that any attention code can be asked from outside, each answered with measured numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from .patient import Patient, PatientFailed

CHANGE = 3.0  # what is added to a token to see who notices


def influence(patient: Patient, x: Tensor) -> Tensor:
    """Who notices whom: how far each token's output moves when one token of the input changes.

    For causal attention nothing lies above the diagonal. Every mistake with masks has a pattern of its own, and so do
    heads that were cut or merged in the wrong order.

    Args:
        patient: what to run.
        x: (batch, token, d_in), 64 bits.

    Returns:
        (token of the output, token of the input): the largest move in any sample and number.

    Raises:
        PatientFailed: it can't be run, or does not give back a row for each token.
    """
    before = _rows(patient, x)
    columns = []
    for token in range(x.shape[1]):
        changed = x.clone()
        changed[:, token] += CHANGE
        columns.append((patient.run(changed) - before).abs().nan_to_num(nan=torch.inf).amax(dim=(0, 2)))
    return torch.stack(columns, dim=1)


def influence_of_samples(patient: Patient, x: Tensor) -> Tensor:
    """Which sample's output moves when one sample of the input changes.

    Args:
        patient: what to run.
        x: (batch, token, d_in) with two samples or more.

    Returns:
        (sample of the output, sample of the input): zero beside the diagonal, if samples keep apart.

    Raises:
        PatientFailed: as `influence`.
    """
    before = _rows(patient, x)
    columns = []
    for sample in range(len(x)):
        changed = x.clone()
        changed[sample] += CHANGE
        columns.append((patient.run(changed) - before).abs().nan_to_num(nan=torch.inf).amax(dim=(1, 2)))
    return torch.stack(columns, dim=1)


def _rows(patient: Patient, x: Tensor) -> Tensor:
    output = patient.run(x)
    if output.dim() != 3 or output.shape[:2] != x.shape[:2]:
        raise PatientFailed(
            f"its output has the shape {tuple(output.shape)} for an input of {tuple(x.shape)}: there is no row for "
            "each token"
        )
    return output


def other_sizes(patient: Patient, x: Tensor) -> dict[str, tuple[str, str | None]]:
    """Which other numbers of tokens and samples it can't take.

    Args:
        patient: what to run.
        x: (batch, token, d_in) that it can take.

    Returns:
        "tokens" and "samples" -> what happened at the first size that failed, and its line; nothing where all went
        well. A longest length is not counted.
    """
    batch, num_tokens, _ = x.shape
    longer, more = torch.cat([x, x.flip(1)], dim=1), torch.cat([x, x.flip(0)])
    failed = {}
    fewer = _what_happened(patient, longer[:, : num_tokens - 1])
    one_more = _what_happened(patient, longer[:, : num_tokens + 1])
    # A longest length may be reached; a code that takes shorter inputs has not fixed its length.
    if fewer is not None or (one_more is not None and one_more[1] == WRONG_SHAPE):
        failed["tokens"] = fewer or one_more
    for samples in (x[:1], more[: batch + 1]):
        happened = _what_happened(patient, samples)
        if happened is not None:
            failed.setdefault("samples", happened)
    return failed


WRONG_SHAPE = None


def _what_happened(patient: Patient, x: Tensor) -> tuple[str, str | None] | None:
    """Words and line of what went wrong, or None."""
    try:
        output = patient.run(x)
    except PatientFailed as failure:
        return f"with an input of {tuple(x.shape)}: {failure}", failure.line
    if output.shape[: x.dim() - 1] == x.shape[:-1]:
        return None
    return f"with an input of {tuple(x.shape)}: its output has the shape {tuple(output.shape)}", WRONG_SHAPE


def differs_from_call_to_call(patient: Patient, x: Tensor) -> float:
    """How far two runs in evaluation are apart when the random numbers differ; zero if none are drawn.

    Args:
        patient: what to run.
        x: (batch, token, d_in), repeated so that some weight would surely be dropped.

    Raises:
        PatientFailed: it can't be run.
    """
    many = x.repeat(8, 1, 1)
    return float((patient.run(many, seed=1) - patient.run(many, seed=2)).abs().max())
