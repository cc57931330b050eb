"""Find the line where a rotation of queries or keys goes wrong: the partner of an element, or the table of angles."""

from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.measure import Structure
from course_lib.tracing import Operation, SourceLine, Value


def locate_wrong_rotation(structure: Structure, turns: list[Operation]) -> SourceLine | None:
    """Find where x' = x * cos + r * sin goes wrong: the line that made r, or the one that laid out the angles.

    In a rotation r is x with its elements exchanged in pairs, one of each pair negated, r = P x with P^T = -P, and both
    elements of a pair have one angle. None if `turns`, products with fixed numbers, are written otherwise or are right.
    """
    for (x, table), (r, _) in _pairs(structure, turns):
        partners, signs = _exchange(structure, x, r)
        if partners is None or signs is None:
            continue
        if not torch.equal(partners[partners], torch.arange(len(partners))) or not torch.equal(signs[partners], -signs):
            return _line_of_join(structure, r, x)
        angles = table.tensor.expand(x.tensor.shape).reshape(-1, x.tensor.shape[-1]).double()
        if float((angles - angles[:, partners]).abs().max()) > 1e-3:
            return _line_of_join(structure, table)
    return _locate_wrong_matrix(structure, turns)


def _pairs(structure: Structure, turns: list[Operation]) -> Iterator[tuple[tuple[Value, Value], tuple[Value, Value]]]:
    """Yield ((x, cosines), (r, sines)): r has the columns of x, in another order, and is made from what x is."""
    factors = [pair for pair in (_moving_and_fixed(structure, turn) for turn in turns) if pair is not None]
    for one in factors:
        for other in factors:
            x, r = one[0], other[0]
            same = x.tensor.shape == r.tensor.shape and not torch.equal(x.tensor, r.tensor)
            if same and len(structure.ancestors_of([r])) > len(structure.ancestors_of([x])):
                yield one, other


def _moving_and_fixed(structure: Structure, turn: Operation) -> tuple[Value, Value] | None:
    moving = [value for value in turn.inputs if structure.is_projected(value)]
    fixed = [value for value in turn.inputs if not structure.dependence.on_input(value)]
    return (moving[0], fixed[0]) if len(moving) == 1 and len(fixed) == 1 else None


def _exchange(structure: Structure, x: Value, r: Value) -> tuple[Tensor | None, Tensor | None]:
    """Return for the elements of a row of r which element of the row of x each one is, and its sign; None if none."""
    width = x.tensor.shape[-1]
    own, others = (structure.columns[one.number].reshape(-1, width)[0] for one in (x, r))
    at = own[None] == others[:, None]  # (element of r, element of x)
    if not (at.sum(1) == 1).all():
        return None, None
    partners = at.int().argmax(1)
    before, after = (one.tensor.reshape(-1, width)[0] for one in (x, r))
    return partners, torch.sign(after * before[partners])


def _line_of_join(structure: Structure, value: Value, start: Value | None = None) -> SourceLine | None:
    """Find the last line that lengthened the rows of a value; of what was made from `start`, without one, the last."""
    before = [] if start is None else structure.ancestors_of([start])
    made = [one for one in structure.ancestors_of([value]) if one.where and one.inputs and one.outputs]
    made = [one for one in made if one not in before]
    wider = [one for one in made if one.outputs[0].tensor.shape[-1:] > one.inputs[0].tensor.shape[-1:]]
    last = wider or (made if start is not None else [])
    return last[-1].where if last else None


def _locate_wrong_matrix(structure: Structure, turns: list[Operation]) -> SourceLine | None:
    """Find the line that stacks matrices ((cos, -sin), (sin, cos)) that are no rotations; None without one."""
    fixed = [value for turn in turns for value in turn.inputs if not structure.dependence.on_input(value)]
    for one in structure.ancestors_of(fixed):
        if one.name == "stack" and len(one.inputs) == 4:
            a, b, c, d = (value.tensor.double() for value in one.inputs)
            if max(float((a * d - b * c - 1).abs().max()), float((a * b + c * d).abs().max())) > 1e-3:
                return one.where
    return None
