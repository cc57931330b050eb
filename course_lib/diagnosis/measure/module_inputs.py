"""Find the arguments of a module's call that queries and keys are made from."""

from course_lib.tracing import FACTORS, ModuleCall, Trace, Value

from .score_products import ScoreProduct, is_new

Names = tuple[int | str, ...]  # positions or names of arguments that hold the same tensor


def entries_of(trace: Trace, call: ModuleCall, products: list[ScoreProduct]) -> tuple[Names, ...]:
    """Return the arguments that queries and keys come from: one group of equal arguments, or two; none if unknown."""
    values = {value.number: value for value in call.inputs.values() if _holds_tokens(value)}
    reached = {number: _descendants(trace, call, value) for number, value in values.items()}

    def comes_from(factor: Value, number: int, before: int) -> bool:
        writers = trace.writers_of(factor, before)
        return factor is values[number] or not reached[number].isdisjoint(writers)

    behind = [
        tuple({n for n in values if comes_from(factor, n, product.operation.number)} for factor in product.factors)
        for product in products
    ]
    both = [n for n in values if all(n in left and n in right for left, right in behind)]
    pairs = [
        (one, other)
        for one in values
        for other in values
        if one != other and all((one in q and other in k) or (one in k and other in q) for q, k in behind)
    ]
    found = tuple(both[:1]) or (pairs[0] if pairs else ())
    return tuple(tuple(name for name, value in call.inputs.items() if value.number == n) for n in found)


def with_values(
    trace: Trace, call: ModuleCall, entries: tuple[Names, ...], products: list[ScoreProduct]
) -> tuple[Names, ...]:
    """Return the groups, each with the arguments of its shape that only values are made from, as `k=x + p, v=x`."""
    behind = trace.ancestors([factor for product in products for factor in product.factors])
    taken = {name for names in entries for name in names}
    found: list[Names] = []
    for names in entries:
        shape = call.inputs[names[0]].tensor.shape
        like = [name for name, value in call.inputs.items() if name not in taken and value.tensor.shape == shape]
        values = [name for name in like if _holds_tokens(call.inputs[name])]
        own = tuple(name for name in values if behind.isdisjoint(_descendants(trace, call, call.inputs[name])))
        taken |= set(own)
        found.append((*names, *own))
    return tuple(found)


def _holds_tokens(value: Value) -> bool:
    return value.tensor.is_floating_point() and value.tensor.dim() in (2, 3)


def _descendants(trace: Trace, call: ModuleCall, value: Value) -> set[int]:
    """Return the operations of a call that depend on one of its inputs."""
    found: set[int] = set()
    for operation in trace.operations[call.first : call.last]:
        reads = (
            one is value or not found.isdisjoint(trace.writers_of(one, operation.number)) for one in operation.inputs
        )
        if not is_new(operation) and any(reads):
            found.add(operation.number)
    return found


def projects(trace: Trace, call: ModuleCall, entries: tuple[Names, ...], products: list[ScoreProduct]) -> bool:
    """Return whether the call multiplies each of these inputs with weights before the scores."""
    scores = {product.operation.number for product in products}
    behind = trace.ancestors([factor for product in products for factor in product.factors])
    for names in entries:
        after = _descendants(trace, call, call.inputs[names[0]]) & behind - scores
        if not any(trace.operations[number].name in (*FACTORS, "convolution") for number in after):
            return False
    return True
