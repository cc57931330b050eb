"""Paths that run the model in fewer bits than the plain pass."""

from collections.abc import Iterator

import torch

from course_lib.diagnosis import in_dtype

from .compare import ROUGH, SAME, typical_difference
from .model import Model
from .outcome import Outcome
from .path import path


@path("float32")
def float32(model: Model) -> Iterator[Outcome]:
    """Run it in float32."""
    yield _in_fewer_bits(model, torch.float32, SAME, "paths-differ")


@path("bfloat16")
def bfloat16(model: Model) -> Iterator[Outcome]:
    """Run it in bfloat16."""
    yield _in_fewer_bits(model, torch.bfloat16, ROUGH, "overflow-half")


def _in_fewer_bits(model: Model, dtype: torch.dtype, most: float, mistake: str) -> Outcome:
    """Return whether the output is finite and how far a typical token is from the plain pass."""
    name = str(dtype).removeprefix("torch.")
    module = in_dtype(dtype, model.copy())
    output = model.output(model.x.to(dtype) if model.x.is_floating_point() else model.x, module=module)
    deviation = typical_difference(model.plain_output, output)
    if not output.isfinite().all() and model.plain_output.isfinite().all():
        return Outcome(name, "wrong", "its output is not finite", mistake, deviation=deviation)
    if deviation > most:  # routers choose other experts, and long sums round: this alone accuses nobody
        return Outcome(name, "remark", f"a typical token differs by {deviation:.2g}", deviation=deviation)
    return Outcome(name, "agrees", f"a typical token differs by {deviation:.1g}", deviation=deviation)
