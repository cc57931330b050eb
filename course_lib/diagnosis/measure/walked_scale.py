"""Follow the scores to their softmax and multiply the plain numbers that they meet.

Where something that depends on the tokens is added to the scores, such as relative positions or a second product,
weights and scores alone don't tell the factor between them.
"""

import math

from torch import Tensor

from course_lib.tracing import FACTORS, Operation, Value

from .softmax_path import MASKS, SoftmaxPath

SCALINGS = ("mul", "mul_", "div", "div_", "true_divide")
CAPS = ("tanh", "tanh_")
SQUARES = ("pow", "square", "linalg_vector_norm")
ADDITIONS = ("add", "add_", "sub", "sub_", "baddbmm", "addmm", "cat")


def walked_scale(path: SoftmaxPath) -> float | None:
    """Return the factor between score products and the first softmax.

    Returns:
        None if the scores go through anything but plain numbers, soft caps, masks, additions and changes of layout, if
        the products of one sum get different factors, or if squares are added, as for distances.
    """
    products = {product.operation.number for product in path.structure.score_products}
    factors: dict[int, float] = {}
    for operation in path.operations:
        if operation in path.softmaxes:
            scores = operation.inputs[0].made_by
            return None if scores is None else factors.get(scores)
        if operation.number in products:
            factors[operation.number] = _alpha(operation)
            continue
        given = [value for value in operation.inputs if value.made_by in factors]
        before = {factors[value.made_by] for value in given if value.made_by is not None}
        if len(before) != 1:
            return None
        step = _step(path, operation, given)
        if step is None:
            return None
        factors[operation.number] = before.pop() * step
    return None


def _step(path: SoftmaxPath, operation: Operation, given: list[Value]) -> float | None:
    """Return what an operation multiplies the scores by; None if it is not known."""
    if operation.name in SCALINGS:
        is_dividend = len(given) == 1 and operation.args[0] is given[0]
        if not is_dividend or any(map(path.dependence.on_input, operation.inputs[1:])):
            return None
        return _number(operation, [value.tensor for value in operation.inputs if value not in given])
    if operation.name in CAPS:
        return 1.0 if _is_cap(path, operation, given[0]) else None
    moves = operation.name in ADDITIONS or operation.name in MASKS
    if operation.name in ADDITIONS and _is_square(path, [value for value in operation.inputs if value not in given]):
        return None
    same = operation.outputs[0].tensor.numel() == given[0].tensor.numel()
    return 1.0 if moves or (same and _keeps_numbers(operation, given[0])) else None


def _is_square(path: SoftmaxPath, values: list[Value]) -> bool:
    """Return whether values are made from squares of what depends on the tokens, without another product."""
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if value.made_by is None or value.made_by in seen or not path.dependence.on_input(value):
            continue
        seen.add(value.made_by)
        operation = path.trace.operations[value.made_by]
        if operation.name in FACTORS:
            continue
        factors = operation.args[:2]
        if operation.name in SQUARES or (operation.name == "mul" and factors[0] is factors[1]):
            return True
        waiting += operation.inputs
    return False


def _is_cap(path: SoftmaxPath, tanh: Operation, given: Value) -> bool:
    """Return whether small scores come out as they are: c * tanh(scores / c)."""
    before = None if given.made_by is None else path.trace.operations[given.made_by]
    after = next((one for one in path.operations if tanh.outputs[0] in one.inputs), None)
    if before is None or after is None or not {before.name, after.name} <= {*SCALINGS}:
        return False
    factors = [_number(one, [value.tensor for value in one.inputs[1:]]) for one in (before, after)]
    return None not in factors and math.isclose(math.prod(filter(None, factors)), 1.0, rel_tol=1e-4)


def _keeps_numbers(operation: Operation, given: Value) -> bool:
    """Return whether an operation only arranges its numbers anew or rounds them."""
    before, after = given.tensor.double().flatten(), operation.outputs[0].tensor.double().flatten()
    return bool(((before.sort().values - after.sort().values).abs() <= 1e-2 * (1 + before.sort().values.abs())).all())


def _number(operation: Operation, others: list[Tensor]) -> float | None:
    if others and others[0].numel() != 1:
        return None
    plain = [float(one) for one in operation.args if isinstance(one, (int, float))]
    number = float(others[0]) if others else (plain or [math.nan])[0]
    if not math.isfinite(number) or number == 0:
        return None
    return 1 / number if operation.name not in ("mul", "mul_") else number


def _alpha(operation: Operation) -> float:
    """Return the factor that a product with a sum takes as an argument."""
    alpha = operation.kwargs.get("alpha", 1.0) if operation.name in ("baddbmm", "addmm") else 1.0
    return float(alpha)
