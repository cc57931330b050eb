"""Read the number that an operation multiplies by."""

from course_lib.tracing import Operation, Value

SCALINGS = ("mul", "mul_", "div", "div_")


def number_of(operation: Operation) -> float | None:
    """Return the number that an operation multiplies by; None if it is none, or 0."""
    factors = list(operation.args[:2])
    divides = operation.name.startswith("div")
    if len(factors) > 1 and not divides and _is_number(factors[0]) and not _is_number(factors[1]):
        factors.reverse()
    factor = factors[1] if len(factors) > 1 else None
    if isinstance(factor, Value):
        factor = float(factor.tensor) if _is_number(factor) else None
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not factor:
        return None
    return 1 / factor if divides else float(factor)


def _is_number(factor: object) -> bool:
    if isinstance(factor, Value):
        return factor.tensor.numel() == 1 and not factor.tensor.is_complex()
    return isinstance(factor, (int, float))
