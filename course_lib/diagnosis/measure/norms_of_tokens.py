"""Recognise a norm whose statistics are of several tokens."""

from course_lib.tracing import FACTORS, Operation

from .operation_names import BATCH_NORMS, LAYER_NORMS
from .run import Run
from .score_products import find_score_products

STATISTICS = {"mean", "var", "std", "var_mean", "std_mean", "linalg_vector_norm", "norm", "sum"}
CENTRES_OR_SCALES = {"sub", "mul", "div"}
# What may be done to a statistic before it is applied; a gate, as sigmoid makes it, is no norm.
BETWEEN = STATISTICS | {
    "add", "sub", "mul", "div", "pow", "square", "sqrt", "rsqrt", "reciprocal", "clamp", "clamp_min", "maximum",
    "unsqueeze", "squeeze", "expand", "expand_as", "view", "_unsafe_view", "_to_copy", "clone", "transpose", "alias",
}  # fmt: skip


def norm_of_tokens(run: Run, first: Operation) -> Operation | None:
    """Return the statistic that a norm before a score product takes of the tokens; None if `first` is of no such norm.

    Args:
        run: of the code.
        first: the first operation whose rows know of other tokens, such as the one that subtracts the mean.
    """
    products = [value for one in find_score_products(run.trace) for value in one.operation.inputs]
    if first.number not in run.trace.ancestors(products):
        return None
    if first.name in (*LAYER_NORMS, *BATCH_NORMS):
        return first
    if first.name.rstrip("_") not in CENTRES_OR_SCALES or len(first.inputs) < 2:
        return None
    sides = [set(run.trace.ancestors([value])) for value in first.inputs[:2]]
    for own, others in (sides, sides[::-1]):
        path = run.in_order(others - own)
        statistics = [one for one in path if one.name in STATISTICS]
        if statistics and all(one.name.rstrip("_") in BETWEEN and one.name not in FACTORS for one in path):
            return statistics[0]
    return None
