"""Rotary positions must turn queries and keys so that a score depends on their distance alone."""

from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_wrong_rotation
from course_lib.diagnosis.measure import (
    SAME,
    Attention,
    RotaryAngles,
    RotatedRow,
    Structure,
    are_given,
    are_made_by_caller,
    rotated_rows,
    rounded_to,
)
from course_lib.diagnosis.registry import rule
from course_lib.diagnosis.rules.rotary_positions import check_rotary_positions, find_restart
from course_lib.tracing import FACTORS, LAYOUT, UNLABELLED, WRITES, Operation, SourceLine, Value, line_at, statement_of

PRODUCTS = ("mul", "mul_", "div", *FACTORS)
ARITHMETIC = ("mul", "mul_", "add", "add_", "sub", "sub_", "addcmul", *FACTORS)


@rule(of_dot_products=True)
def check_turn(attention: Attention, angles: RotaryAngles) -> Iterator[Finding]:
    """Whether scores depend on distance alone."""
    turns = turns_of(attention.structure)
    if attention.rows.is_cached and any(check_rotary_positions.check(attention, angles)):
        return
    if len(turns) < 2 or _is_learned_after(attention.structure, turns) or _differs_before(attention.structure):
        return
    rows, tolerance = rotated_rows(attention), _tolerance(attention.structure, turns)
    fixed = [value for side in turns.values() for operation in side for value in operation.inputs]
    points = are_given(attention.structure, fixed) or are_made_by_caller(attention.structure, fixed)
    for group in dict.fromkeys(one.group for one in rows):
        own = [one for one in rows if one.group == group]
        if all(_are_of_plain_context(attention, one) for one in own):
            continue
        broken = _broken(own, attention.options.causal, tolerance, points=points)
        if broken is not None and (restart := find_restart(attention, angles, own)) is not None:
            yield restart
            return
        if broken is not None:
            (q, k), (other_q, other_k), apart = broken
            evidence = (
                f"with the same token everywhere, the score of query {q} and key {k} and that of query {other_q} and "
                f"key {other_k} differ by {apart:.1%} of the largest score, although the distance is the same"
            )
            yield Finding.named("rotary-wrong-turn", evidence, _locate(attention, own, turns))
            return


def _are_of_plain_context(attention: Attention, row: RotatedRow) -> bool:
    """Return whether the keys of a row are of the context and are not rotated."""
    first = attention.run.x.shape[1] - attention.options.num_context
    return min(row.tokens) >= first and bool(torch.allclose(row.keys, row.keys[:1]))


def turns_of(structure: Structure) -> dict[int, list[Operation]]:
    """Return the products of projected tokens with numbers of their positions, by the side of the score product."""
    dependence, learned = structure.dependence, _learned(structure)
    projected = structure.trace.descendants(structure.projection_operations)
    found: dict[int, list[Operation]] = {}
    for side in (0, 1):
        # The first step of a decoder has the angle 0, so the last one counts, too.
        ends = {structure.score_products[index].sides()[side][0] for index in (0, -1)}
        for operation in structure.ancestors_of(list(ends)):
            if operation.name not in PRODUCTS or operation.number not in projected:
                continue
            fixed = [value for value in operation.inputs if not dependence.on_input(value)]
            if fixed and len(fixed) < len(operation.inputs) and _is_of_positions(structure, fixed[0], learned):
                found.setdefault(side, []).append(operation)
    return found


def _is_learned_after(structure: Structure, turns: dict[int, list[Operation]]) -> bool:
    """Return whether learned numbers multiply what was rotated, as a norm after the rotation does in some models."""
    after = structure.trace.descendants({operation.number for side in turns.values() for operation in side})
    learned = _learned(structure)
    keeps = LAYOUT | WRITES | {"copy_"}  # writing to a cache and reading it multiplies nothing
    before = (one for one in structure.ancestors_of(structure.score_factors) if one.number in after)
    before = (one for one in before if one.name not in keeps)
    fixed = (value for one in before for value in one.inputs if not structure.dependence.on_input(value))
    return any(value.tensor.numel() and _read_for(structure, value) & learned for value in fixed)


def _learned(structure: Structure) -> set[int]:
    """Return the numbers of the values of parameters that training changes, or of all if none of them is trained."""
    reads, parameters = structure.run.parameter_reads, structure.run.subject.parameters
    trained = [name for name in reads if parameters[name].requires_grad] or list(reads)
    return {read.number for name in trained for read in reads[name]}


def _read_for(structure: Structure, value: Value) -> set[int]:
    """Return the numbers of the values that a value comes from, and its own."""
    return {one.number for operation in structure.ancestors_of([value]) for one in operation.inputs} | {value.number}


def _is_of_positions(structure: Structure, value: Value, learned: set[int]) -> bool:
    """Return whether numbers that nobody learns include others than 0 and 1."""
    numbers = value.tensor
    fixed = numbers.numel() > 1 and not _read_for(structure, value) & learned
    return fixed and bool(((numbers != 0) & (numbers != 1)).any())


def _differs_before(structure: Structure) -> bool:
    """Return whether projections differ between equal tokens, because positions were added to the tokens."""
    for product in structure.projections:
        made = structure.run.with_equal_tokens[product.out.number]
        tokens, columns = (
            structure.dependence.token_of(product.out).flatten(),
            structure.columns[product.out.number].flatten(),
        )
        if (tokens < 0).any() or (columns == UNLABELLED).any() or made.is_complex():
            continue
        _, groups = torch.unique(
            torch.stack([structure.dependence.samples[product.out.number].flatten(), columns]),
            dim=1,
            return_inverse=True,
        )
        first = torch.zeros(int(groups.max()) + 1, dtype=torch.float64).scatter_(0, groups, made.double().flatten())
        if float((made.double().flatten() - first[groups]).abs().max()) > 1e-6:
            return True
    return False


def _tolerance(structure: Structure, turns: dict[int, list[Operation]]) -> float:
    """Return how much equal scores may differ, relative to the largest, with the precision of the angles."""
    values = [value for side in turns.values() for operation in side for value in operation.inputs]
    dtypes = {one.tensor.dtype for op in structure.ancestors_of(values) for one in op.outputs}
    dtypes |= {rounded_to(one.tensor) for one in values if not structure.dependence.on_input(one)}
    return 0.02 if torch.bfloat16 in dtypes else 0.003 if torch.float16 in dtypes else 100 * SAME


def _broken(
    rows: list[RotatedRow], causal: bool, tolerance: float, *, points: bool
) -> tuple[tuple[int, int], tuple[int, int], float] | None:
    """Return two pairs of positions of equal distance whose scores differ, and how much; None if a grid explains all.

    Scores may depend on distance along a line or, as for the patches of an image, on the distances along the rows and
    columns of a grid of any width, or along the three axes of a video, which may begin after tokens that are not
    rotated, such as that of the class. Positions that are no steps of a line, such as points in an image, say only that
    the score of a token with itself is the same everywhere.
    """
    pairs = {
        (one.row.query, token): (one.query, key)
        for one in rows
        for token, key in zip(one.tokens, one.keys, strict=True)
    }
    if len(pairs) < 3:
        return None
    length = 1 + max(max(pair) for pair in pairs)
    plain = {pair: float(query @ key) for pair, (query, key) in pairs.items()}
    cosines = {pair: float(torch.cosine_similarity(query, key, dim=0)) for pair, (query, key) in pairs.items()}
    line = (length,)
    found = _unequal(plain, line, 0, tolerance)
    if found is None or _unequal(cosines, line, 0, tolerance) is None:
        return None
    still = 0 if causal else _count_unrotated(pairs)
    starts = {0, still, max(still - 1, 0)}  # the token of position 0 has the angle 0, too
    if any(_unequal(plain, widths, start, tolerance) is None for start in starts for widths in _grids(length - start)):
        return None
    return None if points and _are_rotated_alike(pairs, plain, length, tolerance) else found


def _count_unrotated(pairs: dict[tuple[int, int], tuple[Tensor, Tensor]]) -> int:
    """Return how many tokens at the front have the key of the first one."""
    keys = [key for _, key in sorted({token: key for (_, token), (_, key) in pairs.items()}.items())]
    apart = [float((key - keys[0]).abs().max()) > SAME * float(keys[0].abs().max()) for key in keys]
    return apart.index(True) if True in apart else len(keys)


def _grids(tokens: int) -> list[tuple[int, ...]]:
    """Return how many tokens a step along each axis passes over, of a line and of grids of two and of three axes."""
    boxes = [(wide * high, wide) for wide in range(2, tokens) for high in range(2, tokens) if wide * high < tokens]
    return [(tokens,), *((wide,) for wide in range(2, tokens)), *boxes]


def _are_rotated_alike(
    pairs: dict[tuple[int, int], tuple[Tensor, Tensor]],
    plain: dict[tuple[int, int], float],
    length: int,
    tolerance: float,
) -> bool:
    """Return whether queries and keys are rotated alike, by angles that don't grow in equal steps."""
    own = {pair: score for pair, score in plain.items() if pair[0] == pair[1]}
    if len(own) < 3 or _unequal(own, (length,), 0, tolerance) is not None:
        return False
    keys = {token: key for (_, token), (_, key) in pairs.items()}
    between = {(one, other): float(keys[one] @ keys[other]) for one in keys for other in keys}
    return _unequal(between, (length,), 0, tolerance) is not None


def _unequal(
    scores: dict[tuple[int, int], float], widths: tuple[int, ...], first: int, tolerance: float
) -> tuple[tuple[int, int], tuple[int, int], float] | None:
    """Return two pairs of positions with equal offsets on a grid whose scores differ; None if there are none."""
    seen: dict[tuple[int, ...], tuple[int, int]] = {}
    largest = max(map(abs, scores.values())) or 1.0
    for (query, key), score in sorted(scores.items()):
        if min(query, key) < first:
            continue
        at = zip(_place(query - first, widths), _place(key - first, widths), strict=True)
        other = seen.setdefault(tuple(one - two for one, two in at), (query, key))
        apart = abs(score - scores[other]) / largest
        if apart > tolerance:
            return other, (query, key), apart
    return None


def _place(token: int, widths: tuple[int, ...]) -> list[int]:
    """Return a token's index along each axis of a grid, the outermost first."""
    place = []
    for width in widths:
        index, token = divmod(token, width)
        place.append(index)
    return [*place, token]


def _locate(attention: Attention, rows: list[RotatedRow], turns: dict[int, list[Operation]]) -> SourceLine | None:
    """Find the line of a rotation that changes lengths, of the only side that is rotated, or of the keys."""
    structure, row = attention.structure, rows[-1].row
    keys = int(attention.rows.scores.keys_are_right(row.product))
    lengths = {1 - keys: [one.query for one in rows], keys: [key for one in rows for key in one.keys]}
    for side in turns:
        wrong = locate_wrong_rotation(structure, turns[side])
        if wrong is not None:
            return wrong
    for side in (1 - keys, keys):
        if side in turns and _differ([vector.norm() for vector in lengths[side]]):
            return _last_step(structure, side, turns[side])
    own = [one.own_cosine for one in rows if one.own_cosine is not None]
    side = keys if keys in turns else 1 - keys
    if own and max(own) - min(own) > 100 * SAME:
        return line_of_its_own(turns[side][-1], turns.get(1 - side, [])) or _last_step(structure, side, turns[side])
    return _last_step(structure, side, turns[side])


def line_of_its_own(turn: Operation, others: list[Operation]) -> SourceLine | None:
    """Return the innermost line that led to a turn and to none of the other side's turns."""
    shared = {line_at(statement_of(*frame)) for other in others for frame in other.frames}
    lines = [line_at(statement_of(*frame)) for frame in turn.frames]
    return next(iter([line for line in lines if line not in shared]), None)


def _differ(lengths: list[Tensor]) -> bool:
    return float(max(lengths) - min(lengths)) > 100 * SAME * float(max(lengths))


def _last_step(structure: Structure, side: int, turns: list[Operation]) -> SourceLine | None:
    """Find the line where a turn is put together."""
    after = structure.trace.descendants({operation.number for operation in turns})
    before = structure.ancestors_of([structure.score_products[0].sides()[side][0]])
    steps = [op for op in before if op.number in after and op.name in ARITHMETIC and not _is_scaling(structure, op)]
    made = {value.number for operation in turns for value in operation.outputs}
    steps = [op for op in steps if sum(value.number in made for value in op.inputs) > 1] or steps
    return steps[-1].where if steps else turns[-1].where


def _is_scaling(structure: Structure, operation: Operation) -> bool:
    """Return whether an operation multiplies by one number, as the scale does."""
    others = [value for value in operation.inputs if not structure.dependence.on_input(value)]
    return (
        operation.name in ("mul", "mul_")
        and all(value.tensor.numel() == 1 for value in others)
        and len(operation.inputs) < 2
    )
