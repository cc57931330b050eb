"""Measure by how much queries and keys are scaled after they were normalised."""

import math

from course_lib.tracing import Operation

from .operation_names import LAYER_NORMS
from .scalings import SCALINGS, number_of
from .structure import Structure


def factor_after_norms(structure: Structure) -> float | None:
    """Return the product of the plain numbers that normalised queries and keys are multiplied by before the scores.

    Returns:
        None unless queries and keys both go through a norm that makes the mean of their squares 1. After a norm to the
        length 1, any scale may be right.
    """
    projected, factor = structure.trace.descendants(structure.projection_operations), 1.0
    for value, _ in structure.score_products[0].sides():
        way = [one for one in structure.ancestors_of([value]) if one.number in projected and one.outputs]
        norms = [one for one in way if _is_norm(structure, one)]
        if not norms or not _has_mean_square_1(norms[-1]):
            return None
        after = structure.trace.descendants({norms[-1].number}) - {norms[-1].number}
        for operation in way:
            if operation.number in after:
                factor *= _factor_of(structure, operation)
    return factor


def _is_norm(structure: Structure, operation: Operation) -> bool:
    """Return whether an operation is a norm, or the product with the inverse length that ends one."""
    if operation.name in LAYER_NORMS:
        return True
    given = [value for value in operation.inputs if structure.dependence.on_input(value)]
    if operation.name not in SCALINGS or len(given) != 2:
        return False
    sizes = [value.tensor.shape[-1] if value.tensor.dim() else 1 for value in given]
    if min(sizes) != 1 or max(sizes) == 1:
        return False
    lengths = operation.outputs[0].tensor.double().norm(dim=-1)
    return float(lengths.max() - lengths.min()) < 0.01 * float(lengths.max())


def _has_mean_square_1(norm: Operation) -> bool:
    made = norm.outputs[0].tensor.double()
    return norm.name in LAYER_NORMS or (abs(float(made.square().mean()) - 1) < 0.02 and made.shape[-1] > 1)


def _factor_of(structure: Structure, operation: Operation) -> float:
    """Return the plain number that an operation multiplies by; 1 for any other operation, or a learned number."""
    given = [value for value in operation.inputs if structure.dependence.on_input(value)]
    parameters = structure.run.parameter_storages
    learned = any(value.storage in parameters for value in operation.inputs)
    number = number_of(operation) if operation.name in SCALINGS and len(given) == 1 and not learned else None
    return number if number is not None and math.isfinite(number) else 1.0
