"""A token's query and key must be rotated by the angles of one position, along each axis that it has."""

from collections import Counter
from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import Attention, Structure, rotated_rows
from course_lib.diagnosis.registry import rule
from course_lib.diagnosis.rules.rotary_turn import line_of_its_own, turns_of
from course_lib.tracing import Operation, SourceLine, Value

SHIFTS = (1, -1, 2, -2)
CUTS = ("slice", "select", "narrow", "index", "index_select", "embedding", "roll")
NEAR = 1e-5  # of cosines


@rule(of_dot_products=True)
def check_shifted_side(attention: Attention) -> Iterator[Finding]:
    """Whether queries and keys have their own positions."""
    structure, turns = attention.structure, turns_of(attention.structure)
    if attention.rows.in_pieces or attention.options.num_context or len(turns) < 2 or len(turns[0]) != len(turns[1]):
        return
    pairs = [[_angles(structure, one) for one in pair] for pair in zip(turns[0], turns[1], strict=True)]
    tokens = attention.run.x.shape[1]
    keys = int(attention.rows.scores.keys_are_right(attention.rows.all[0].product))
    for shift in SHIFTS:
        if all(_is_shifted(one.tensor, other.tensor, tokens, shift) for one, other in pairs):
            later, earlier = ("keys", "queries") if (shift > 0) == (keys == 1) else ("queries", "keys")
            steps = "1 position" if abs(shift) == 1 else f"{abs(shift)} positions"
            evidence = (
                f"the {later} are turned as tokens {steps} later are, and the {earlier} are not: a token is that far "
                "from itself"
            )
            side = keys if later == "keys" else 1 - keys
            where = _locate_shift(structure, [pair[side] for pair in pairs], [pair[1 - side] for pair in pairs])
            yield Finding.named("rotary-wrong-turn", evidence, where or turns[side][-1].where)
            return


@rule(of_dot_products=True)
def check_axes(attention: Attention) -> Iterator[Finding]:
    """Whether each axis of a grid turns elements of its own."""
    structure, turns = attention.structure, turns_of(attention.structure)
    if attention.rows.in_pieces or len(turns) < 2 or not all(_are_alike(structure, *one) for one in turns.items()):
        return
    if any(_are_of_one_axis(one.keys) for one in rotated_rows(attention)):
        evidence = (
            "each angle turns two pairs of elements of a head, and the tokens of a row or a column of a grid are all "
            "turned by the same angles: one axis is used for both"
        )
        keys = turns[1]
        yield Finding.named("rotary-wrong-turn", evidence, line_of_its_own(keys[-1], keys[:1]) or keys[-1].where)


def _are_of_one_axis(keys: Tensor) -> bool:
    """Return whether keys, maybe without some in front, are equal just in each row of a grid, or in each column."""
    size = float(keys.norm(dim=-1).max())
    equal = torch.cdist(keys, keys) <= NEAR * size
    for start in range(len(keys) - 3):
        left = len(keys) - start
        for width in (one for one in range(2, left // 2 + 1) if left % one == 0):
            at = torch.arange(left)
            alike = [one[:, None] == one for one in (at // width, at % width)]
            if any(torch.equal(equal[start:, start:], one) for one in alike):
                return True
    return False


def _angles(structure: Structure, turn: Operation) -> Value:
    """Return what a turn multiplies the tokens by."""
    return next(value for value in turn.inputs if not structure.dependence.on_input(value))


def _is_shifted(queries: Tensor, keys: Tensor, tokens: int, shift: int) -> bool:
    """Return whether the keys have the angles of the queries of some tokens later, and not their own."""
    queries, keys = queries.squeeze(), keys.squeeze()
    axes = [axis for axis, size in enumerate(queries.shape) if size == tokens]
    if queries.shape != keys.shape or not axes or tokens - abs(shift) < 3 or _are_near(queries, keys):
        return False
    first, second = (queries, keys) if shift > 0 else (keys, queries)
    left = tokens - abs(shift)
    return any(_are_near(first.narrow(axis, abs(shift), left), second.narrow(axis, 0, left)) for axis in axes)


def _are_near(one: Tensor, other: Tensor) -> bool:
    return bool(torch.allclose(one, other.to(one.dtype), rtol=0, atol=NEAR))


def _locate_shift(structure: Structure, wrong: list[Value], right: list[Value]) -> SourceLine | None:
    """Find the line that cuts the angles of one side differently."""
    others = structure.ancestors_of(right)
    own = [one for one in structure.ancestors_of(wrong) if one not in others and one.where]
    cut = next((one for one in own if one.name in CUTS), own[-1] if own else None)
    return None if cut is None else line_of_its_own(cut, others) or cut.where


def _are_alike(structure: Structure, side: int, turns: list[Operation]) -> bool:
    """Return whether each angle that depends on position turns more elements of a head than the two of a plane."""
    value, at = structure.score_products[0].sides()[side]
    head = set(structure.columns[value.number].flatten()[at[0]].tolist())
    counts: Counter = Counter()
    for turn in turns:
        out, angles = turn.outputs[0], _angles(structure, turn).tensor
        sizes = zip(angles.shape[::-1], out.tensor.shape[::-1], strict=False)
        if angles.dim() > out.tensor.dim() or any(size not in (1, most) for size, most in sizes):
            continue  # the operation is no product by elements
        columns, tokens = (one.flatten() for one in (structure.columns[out.number], structure.dependence.token_of(out)))
        angles = torch.broadcast_to(angles, out.tensor.shape).flatten()
        known = tokens >= 0
        for column in head.intersection(columns[known].tolist()):
            chosen = (columns == column) & known
            of_token = torch.zeros(int(tokens.max()) + 1, dtype=angles.dtype).scatter(0, tokens[chosen], angles[chosen])
            parts = torch.view_as_real(of_token) if of_token.is_complex() else of_token.abs()
            if float((parts - parts[:1]).abs().max()) > 100 * NEAR:
                planes = 2 if of_token.is_complex() else 1
                counts[tuple((parts / NEAR / 10).round().flatten().tolist())] += planes
    return bool(counts) and min(counts.values()) >= 4
