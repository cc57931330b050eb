"""Code that takes a mask is given one, in the sense in which it understands masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .examination import Examination, examine, expected_keep, mask_argument
from .patient import Patient, first_tensor
from .rules.weights import seen_pattern

Sense = Callable[[Tensor, Tensor], Tensor]  # who is seen, x -> a mask

# What True or a number may mean: may attend, must not attend, added to the scores, 1 = must not attend.
SENSES: tuple[Sense, ...] = (
    lambda seen, x: seen,
    lambda seen, x: ~seen,
    lambda seen, x: torch.zeros(seen.shape, dtype=x.dtype, device=x.device).masked_fill(~seen, -torch.inf),
    lambda seen, x: (~seen).to(x.dtype),
)


def with_mask(examination: Examination, told: dict[str, Any]) -> Examination:
    """Examine again with a mask, where the code needs one to run or `keep` says that there is one.

    Args:
        examination: without a mask.
        told: causal, num_heads, num_kv_heads and keep, as `diagnose` got them.

    Returns:
        The examination in which the right tokens are seen, else the first one that ran, else the given one.
    """
    patient, keep = examination.patient, told["keep"]
    argument = mask_argument(patient.original)
    missing = isinstance(examination.result, TypeError) and "argument" in str(examination.result)
    if argument is None or not (missing or keep is not None) or _is_right(examination):
        return examination
    first = None
    for sense in SENSES[:1] if argument == "keep" else SENSES:
        tried = examine(Patient(patient.original, _call(argument, sense, told)), examination.given, **told)
        if _is_right(tried):
            return tried
        if first is None and tried.flow is not None:
            first = tried
    return first or examination


def _is_right(examination: Examination) -> bool:
    flow = None if isinstance(examination.result, Exception) else examination.flow
    return flow is not None and torch.equal(seen_pattern(examination), examination.expected)


def _call(
    argument: str, sense: Callable[[Tensor, Tensor], Tensor], told: dict[str, Any]
) -> Callable[[Any, Tensor], Any]:
    def call(code: Any, x: Tensor) -> Any:
        seen = expected_keep(told["causal"], told["keep"], len(x), 1, x.shape[1]).to(x.device)
        mask = sense(seen[0, 0] if told["keep"] is None else seen, x)
        return first_tensor(code(x, **{argument: mask}))

    return call
