"""Compare the factor between projections and weights with head_dim ** -0.5."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import NOT_JUDGED, Finding, NotJudged
from course_lib.diagnosis.finding_pictures import picture_of_weights
from course_lib.diagnosis.locate import (
    locate_idle_scaling,
    locate_scaling,
    locate_skipped_scaling,
    locate_sum_of_products,
    locate_unused_scaling,
    scale_by_choice,
)
from course_lib.diagnosis.measure import (
    SCALINGS,
    Attention,
    RotaryAngles,
    SoftmaxPath,
    Structure,
    factor_after_norms,
    intended_logits,
    number_of,
    walked_scale,
)
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, Operation, Value

from .idle_scores import hides_everything

Element = tuple[int, int, int]  # sample, token, column of weights
EXACT = 2.5e-3  # a scale in bfloat16 is rounded by up to 2**-9; a BatchNorm multiplies by 1 / (1 + 1e-3) ** 0.5

NOT_LINEAR = {"relu", "leaky_relu", "elu", "gelu", "silu", "tanh", "sigmoid", "softplus", "clamp_min", "threshold"}


@rule(of_dot_products=True)
def check_scale(attention: Attention, path: SoftmaxPath, angles: RotaryAngles) -> Iterator[Finding | str]:
    """The scale of the scores."""
    factor, given = _factor(attention, path, angles), attention.options.scale
    head_dim, right = attention.structure.head_dim, given or attention.structure.head_dim**-0.5
    if factor is None:
        reason = _why_unknown(attention, path, given)
        if reason:
            yield NotJudged(f"{NOT_JUDGED}, because {reason}")
        return
    normalised = factor_before_scores(attention.structure) is None
    if abs(factor / right - 1) < EXACT or (attention.fitted_scale is None and _is_of_a_sum(attention, path, factor)):
        return
    if abs(factor / _factor_of_projections(attention.structure) ** 2 / right - 1) < EXACT:
        return
    draw = partial(picture_of_weights, attention, path, partial(_scaled, attention, path, right / factor))
    chosen = None if given else scale_by_choice(attention.run.subject, factor)
    asked = f"scale={given:g} was given" if given else f"for head_dim {head_dim} it should be {right:.4f}"
    several = attention.fitted_scale is None and len(attention.structure.score_products) > 1
    if (several or normalised) and not given and abs(factor - 1) >= EXACT and not _meaning(attention, factor):
        place = "after a norm" if normalised else "of a sum of several products"
        yield NotJudged(f"{NOT_JUDGED}, because it is {factor:.4g} {place}; give `scale`")
    elif chosen is not None:
        yield f"the scale is {factor:.4f} because the code sets {chosen}; give `scale` to have it judged"
    elif abs(factor - 1) >= EXACT:
        evidence = f"scores are multiplied by {factor:.4f}{_meaning(attention, factor)}; {asked}"
        yield Finding.named("wrong-scale", evidence, locate_scaling(path), draw, factor=factor)
    elif given or normalised or not _is_in_weights(attention.structure, right):
        asked = f"and {asked}" if given else f"head_dim is {head_dim}, so they should be multiplied by {right:.4f}"
        where = locate_idle_scaling(path) or locate_unused_scaling(path) or locate_skipped_scaling(path)
        where = where or locate_sum_of_products(path) or attention.structure.score_products[0].operation.where
        late, total = _scaling_of_weights(attention, path)
        if late is not None:
            where, asked = late.where, f"{asked}; the weights are scaled instead and sum to {total:.4f}"
        yield Finding.named("missing-scale", f"scores go to softmax as they are; {asked}", where, draw)


def _scaling_of_weights(attention: Attention, path: SoftmaxPath) -> tuple[Operation | None, float]:
    """Return the operation that scales the weights behind softmax, if there is one, and what each row sums to."""
    sums = attention.applied_weights.sum(-1)[attention.expected.any(-1)]
    total, last = float(sums.mean()), path.softmaxes[-1].number if path.softmaxes else len(path.trace.operations)
    after = (one for one in path.operations if one.number > last and one.name in SCALINGS and one.where)
    late = next((one for one in after if number_of(one) not in (None, 1)), None)
    return late if abs(total - 1) > EXACT and float((sums - total).abs().max()) < 1e-6 else None, total


def _why_unknown(attention: Attention, path: SoftmaxPath, given: float | None) -> str:
    """Return why no factor leads from projections to weights, as a clause; "" if it is the right one all the same."""
    unknown = attention.scores.isnan()[attention.expected].any()
    if not attention.options.normalised or unknown or not path.softmaxes:
        return ""
    if hides_everything(attention, path) is not None:
        return "every key is hidden"
    if _is_learned(path):
        return "a learned factor multiplies them"
    between = _between(attention, path)
    if between is None:
        return "between scores and softmax there is more than a factor and a mask"
    if given and all(abs(scale / given - 1) < EXACT for scale in between.tolist()):
        return ""
    moves = _moves_of_projections(attention.structure)
    if any(None in _ratios(attention.structure, side, moves) for side in (0, 1)):
        return "queries or keys are not made by projections alone"
    bent = _bent_by(attention.structure)
    if bent is not None:
        return f"queries or keys go through `{bent}` behind their projections"
    if factor_before_scores(attention.structure) is None:
        return "behind their projections queries or keys change their lengths, each by a factor of its own"
    return "the factor between products and softmax differs from head to head"


def _bent_by(structure: Structure) -> str | None:
    """Return the name of an operation that is not linear between projections and scores; None without one."""
    after = structure.trace.descendants(set(structure.projection_operations))
    made = (one for one in structure.ancestors_of(structure.score_factors) if one.number in after)
    return next((name for one in made if (name := one.name.rstrip("_")) in NOT_LINEAR), None)


def _factor(attention: Attention, path: SoftmaxPath, angles: RotaryAngles) -> float | None:
    """Return the factor between projections and weights; None if it is learned, unknown or differs between heads."""
    between = _between(attention, path)
    if between is None or _is_learned(path):
        return None
    before = factor_before_scores(attention.structure) or factor_after_norms(attention.structure)
    if before is None:
        return None
    scale = between * before / angles.stretch**2
    if float((scale - scale[0]).abs().max()) > EXACT * float(scale[0].abs()) or not float(scale[0]):
        return None
    return float(scale[0])


def _between(attention: Attention, path: SoftmaxPath) -> Tensor | None:
    """Return the factor between score products and softmax, (head,) or (1,); None if it is not known."""
    if attention.fitted_scale is not None or not attention.options.normalised:
        return attention.fitted_scale
    walked = walked_scale(path)
    return None if walked is None else torch.tensor([walked], dtype=torch.float64)


def _scaled(attention: Attention, path: SoftmaxPath, by: float) -> Tensor | None:
    """Return the intended logits with scores that are multiplied by a further factor; None if they are not known."""
    logits, scale = intended_logits(attention, path), attention.fitted_scale
    if logits is None or scale is None:
        return None
    return logits + (by - 1) * scale[:, None, None] * attention.scores[0].nan_to_num()


def _is_of_a_sum(attention: Attention, path: SoftmaxPath, factor: float) -> bool:
    """Return whether a factor is right for scores that are a sum of products, some of them of positions alone."""
    structure = attention.structure
    made_from = path.trace.ancestors(path.softmaxes[0].inputs) if path.softmaxes else set()
    made_from -= path.trace.ancestors(structure.score_factors) | structure.projection_operations
    most = min(3, sum(product.operation.number in made_from for product in structure.products))
    widths = {product.size for product in structure.score_products} | {structure.head_dim}
    sizes = {count * width for width in widths for count in range(1, most + 1)} | {sum(widths)}
    return any(abs(factor * size**0.5 - 1) < EXACT for size in sizes)


def factor_before_scores(structure: Structure) -> float | None:
    """Measure the factor by which queries and keys together are scaled between projection and score product.

    It is computed from their responses to a change of x, so that a bias does not count; None if they are normalised or
    if it is not the same for all tokens.
    """
    moves = _moves_of_projections(structure)
    factor = 1.0
    for side in (0, 1):
        ratios = list(_ratios(structure, side, moves))
        if not ratios or None in ratios:
            return None
        squares = torch.tensor(ratios, dtype=torch.float64)
        if float(squares.max() / squares.min()) > 1 + 1e-5:
            return None
        factor *= float(squares.mean()) ** 0.5
    return factor


def _factor_of_projections(structure: Structure) -> float:
    """Return the factor that queries, keys and values are each multiplied by after their projection; 1 if they differ.

    It belongs to a layer that scales its product itself, as for maximal update parametrization.
    """
    moves = _moves_of_projections(structure)
    sides = [side for product in structure.value_products for side in product.sides()]
    values = [side for side in sides if structure.is_projected(side[0])]
    ratios = [ratio for side in (0, 1) for ratio in _ratios(structure, side, moves)]
    ratios += [ratio for side in values for ratio in _ratios_of(structure, side, moves)]
    known = [one for one in ratios if one is not None]
    if not values or len(known) < len(ratios) or max(known) > (1 + 1e-5) * min(known):
        return 1.0
    return known[0] ** 0.5


def _ratios(structure: Structure, side: int, moves: dict[Element, float]) -> Iterator[float | None]:
    """Yield the squared factor of each query or key; None if an element was not projected."""
    live = [one for one in structure.score_products if one.operation.number in structure.run.live]
    for product in live or structure.score_products:
        yield from _ratios_of(structure, product.sides()[side], moves)


def _ratios_of(
    structure: Structure, factor: tuple[Value, Tensor], moves: dict[Element, float]
) -> Iterator[float | None]:
    """Yield the squared factor of each row of a product's factor; None if an element was not projected."""
    value, which = factor
    _, rows = torch.unique(which[:, 0], return_inverse=True)
    firsts = torch.full((int(rows.max()) + 1,), len(rows)).scatter_reduce(0, rows, torch.arange(len(rows)), "amin")
    elements = which[firsts]
    squares = (structure.run.response_of(value).flatten()[elements] ** 2).sum(1).tolist()
    for square, row in zip(squares, _identities(structure, value, elements), strict=True):
        before = [moves.get(element) for element in row if element[2] != UNLABELLED]
        known = [one for one in before if one is not None]
        if len(known) < len(before):
            yield None
            return
        size = sum(one * one for one in known)
        if size > 1e-20:
            yield square / size


def _identities(structure: Structure, value: Value, elements: Tensor) -> list[list[Element]]:
    dependence = structure.dependence
    tables = dependence.sample_of(value), dependence.token_of(value), structure.columns[value.number]
    rows = zip(*(table.flatten()[elements].tolist() for table in tables), strict=True)
    return [list(zip(*row, strict=True)) for row in rows]


def _moves_of_projections(structure: Structure) -> dict[Element, float]:
    """Return how much each projected element changes with x."""
    found: dict[Element, float] = {}
    for value in (structure.trace.x, *(product.out for product in structure.projections)):
        (row,) = _identities(structure, value, torch.arange(value.tensor.numel())[None])
        for element, move in zip(row, structure.run.response_of(value).flatten().tolist(), strict=True):
            found.setdefault(element, move)
    return found


def _is_learned(path: SoftmaxPath) -> bool:
    """Return whether a parameter scales the scores, because a learned temperature has no right value."""
    run, on_input = path.scores.run, path.scores.dependence.on_input
    parameters = run.parameter_storages
    last = path.softmaxes[0].number if path.softmaxes else len(path.trace.operations)
    for operation in (one for one in path.operations if one.number < last):
        factors = operation.inputs[1:] if operation.name in SCALINGS else ()
        read = list(factors)
        if not any(map(on_input, factors)):
            read += [value for one in path.scores.structure.ancestors_of(list(factors)) for value in one.inputs]
        if any(value.storage in parameters for value in read):
            return True
    return False


def _meaning(attention: Attention, factor: float) -> str:
    """Return what a factor probably is, as the end of a clause."""
    head_dim, heads, x = attention.structure.head_dim, attention.rows.num_heads, attention.run.x
    known = {
        "1 / sqrt(width of all heads)": (head_dim * heads) ** -0.5, "1 / head_dim": 1 / head_dim,
        "sqrt(head_dim)": head_dim**0.5, "1 / sqrt(number of tokens)": x.shape[1] ** -0.5,
        "1 / sqrt(d_in)": x.shape[2] ** -0.5, "1 / sqrt(number of heads)": heads**-0.5,
        "1 / width of all heads": 1 / (head_dim * heads), "head_dim ** -0.25": head_dim**-0.25,
        "head_dim": float(head_dim), "1 / sqrt(batch)": x.shape[0] ** -0.5,
    }  # fmt: skip
    name = next((name for name, value in known.items() if abs(factor / value - 1) < EXACT), None)
    return "" if name is None else f", which is {name}"


def _is_in_weights(structure: Structure, right: float) -> bool:
    """Return whether the weights of queries or keys are smaller than the others by the missing factor."""
    values = [value for value, _ in structure.value_products[0].sides() if structure.is_projected(value)]
    deviations = [_deviation(structure, value) for value, _ in structure.score_products[0].sides()]
    rest = _deviation(structure, values[-1]) if values else None
    known = [one for one in deviations if one is not None]
    if rest is None or len(known) < 2:
        return False
    return abs(min(known) / rest / right - 1) < 0.35 and abs(max(known) / rest - 1) < 0.35


def _deviation(structure: Structure, value: Value) -> float | None:
    """Return the standard deviation of the weights that projected a value."""
    columns = torch.unique(structure.columns[value.number])
    for product in structure.projections:
        own = torch.isin(structure.columns[product.out.number].flatten(), columns[columns != UNLABELLED])
        if own.any():
            weights, which = product.sides()[1 if structure.dependence.on_input(product.left) else 0]
            return float(weights.tensor.double().flatten()[which[own]].std()) or None
    return None
