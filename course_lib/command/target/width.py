"""How wide a token is that a module takes: found by running it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

ANY = 12  # for code that takes every width; 1, 2, 3, 4 and 6 heads divide it


def width_of(patient: Any, call: Callable[..., Any] | None, batch: int, tokens: int) -> int | None:
    """Find the width of a token: the first that the code can be run with.

    Args:
        patient: a module or function.
        call: how it is run, if not by x alone.
        batch, tokens: the sizes of the input.

    Returns:
        The width; that of the first Linear if nothing can be run, and None where there is no Linear either.
    """
    import torch

    from course_lib.diagnosis.patient import Patient, PatientFailed

    widths = list(dict.fromkeys(_widths(patient)))
    if len(widths) == 1 and _linears(patient):
        return widths[0]
    for width in widths:
        try:
            Patient(patient, call).run(torch.ones(batch, tokens, width, dtype=torch.float64))
        except (PatientFailed, RuntimeError):
            continue
        return width
    return _linears(patient)[0] if _linears(patient) else None


def _widths(patient: Any) -> Iterator[int]:
    """What a width may be: what the Linears take, then the axes of the parameters, first that of W in x @ W."""
    yield from _linears(patient)
    shapes = [tuple(p.shape) for p in patient.parameters() if p.dim() > 1] if hasattr(patient, "parameters") else []
    for axis in (-2, -1, 0):
        yield from (shape[axis] for shape in shapes)
    if not shapes:
        yield ANY


def _linears(patient: Any) -> list[int]:
    from torch import nn

    modules = patient.modules() if isinstance(patient, nn.Module) else ()
    return [module.in_features for module in modules if isinstance(module, nn.Linear)]
