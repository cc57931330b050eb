"""Find where a run draws random numbers, and tell dropout from noise."""

import re

from torch import Tensor

from .graph import Operation, Trace

DROPS = re.compile(r"dropout|bernoulli")
DRAWS = re.compile(r"dropout|bernoulli|rand|normal_|uniform_|multinomial")


def draws(trace: Trace) -> list[Operation]:
    """Return the operations that draw random numbers."""
    return [operation for operation in trace.operations if DRAWS.search(operation.name)]


def drops_out(trace: Trace) -> bool:
    """Return whether random numbers decide what is dropped: whether they alone make a mask of two values."""
    drawn = {operation.number for operation in draws(trace)}
    random: set[int] = set()
    for operation in trace.operations:
        if operation.number in drawn and DROPS.search(operation.name):
            return True
        computed = [value for value in operation.inputs if value.made_by is not None or value is trace.x]
        derived = bool(computed) and all(value.number in random for value in computed)
        if operation.number not in drawn and not derived:
            continue
        random |= {value.number for value in operation.outputs}
        if derived and any(_is_mask(value.tensor) for value in operation.outputs):
            return True
    return False


def _is_mask(tensor: Tensor) -> bool:
    return tensor.numel() > 2 and len(tensor.unique()) <= 2
