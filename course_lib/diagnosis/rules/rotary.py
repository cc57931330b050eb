"""Find rotary positions that are prepared and never applied, or applied to the values."""

import inspect
import re
from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from course_lib.calling import forward_code
from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_attribute, locate_discarded, names_in, names_read
from course_lib.diagnosis.measure import RotaryAngles, Run, Scores, Structure, noise_of, role_of
from course_lib.diagnosis.measure.rotary_angles import ROTATING
from course_lib.diagnosis.registry import rule
from course_lib.tracing import (
    UNLABELLED,
    Change,
    Operation,
    SourceLine,
    Value,
    is_foreign,
    line_at,
    replay,
    source_of,
    statement_of,
)

CHOICE = re.compile(r"\b(if self\.\w+[^\n]*):\n[^\n]*(?:rot|rope)", re.I)
ROTARY = re.compile("rot|rope", re.I)
ROLES = {"queries", "keys", "values"}
SUMS = ("add", "add_", "sub", "sub_")


@rule(of_dot_products=True)
def check_rotary(angles: RotaryAngles) -> Iterator[Finding | str]:
    """Whether rotary positions are applied."""
    run, computed, tables, given = angles.structure.run, angles.trigonometry, angles.tables, angles.of_given_positions
    if run.live.isdisjoint(angles.structure.value_product_descendants):
        return  # what the heads found is thrown away, and the rotations with it
    read = run.storages_read(run.live)
    unread = [name for name, storage in tables.items() if storage not in read]
    turns = any(operation.number in run.live for operation in computed)
    if computed and not turns:
        rotated = angles.unused_rotations({operation.number for operation in computed})
        choice = _choice_without_positions(angles) if run.options.has_call and not rotated else None
        if choice is not None:
            yield f"positions are given and not applied, because of `{choice}`"
            return
        if _meet_idle_weights(angles, computed):
            return  # a table of positions that a matrix projects, and no rotation
        evidence = "cosines and sines are computed and nothing reads them"
        yield Finding.named("rotary-unused", evidence, _locate_unused(angles, computed))
    elif tables and not turns and len(unread) == len(tables) and not angles.read_as_cosines:
        readers = [op for op in run.trace.operations if any(v.storage in tables.values() for v in op.inputs)]
        where = _locate_unused(angles, readers) or locate_attribute(run.subject, unread[0].split(".")[0])
        yield Finding.named("rotary-unused", f"`{unread[0]}` is prepared and never changes the output", where)
    elif given and not any(operation.number in run.live for operation in given):
        evidence = "the cosines and sines of the positions are given and never change the output"
        yield Finding.named("rotary-unused", evidence, _locate_unused(angles, given))
    elif not computed and not tables:
        ran = {code for operation in run.trace.operations for code, _ in operation.frames}
        names = (
            f"{name} {type(module).__name__}"
            for name, module in run.subject.modules.items()
            if name
            and forward_code(module) not in ran  # it may keep its tables anywhere
            and not any(read.startswith(f"{name}.") for read in run.parameter_reads)
        )
        module = next((name.split()[0] for name in names if ROTARY.search(name)), None)
        if module is not None:
            where = locate_attribute(run.subject, module.split(".")[-1])
            yield Finding.named("rotary-unused", f"`{module}` is never called", where)


def _meet_idle_weights(angles: RotaryAngles, computed: list[Operation]) -> bool:
    """Return whether parameters that don't change the output multiply the cosines and sines."""
    run = angles.structure.run
    after = angles.trace.descendants({operation.number for operation in computed})
    return any(one.number in after for one in run.readers_of(*run.unused_parameters))


def _choice_without_positions(angles: RotaryAngles) -> str | None:
    """Return the condition on a setting of the module under which it would rotate; None if there is none."""
    for code in {frame[0] for product in angles.structure.score_products for frame in product.operation.frames}:
        try:
            found = CHOICE.search(inspect.getsource(code))
        except OSError:
            continue
        if found:
            return found[1]
    return None


def _locate_unused(angles: RotaryAngles, start: list[Operation]) -> SourceLine | None:
    """Find the statement that discards a rotation, or else the line of the score product."""
    rotations = angles.unused_rotations({operation.number for operation in start})
    discarded = locate_discarded(rotations[-1]) if rotations else None
    return discarded or angles.structure.score_products[0].operation.where


@rule()
def check_given_angles(run: Run) -> Iterator[Finding]:
    """Whether the module reads cosines and sines that it is given."""
    for call in (one for one in run.trace.calls if one.outer is None):
        code = forward_code(call.module)
        source = None if code is None or is_foreign(code.co_filename) else source_of(code)
        if code is None or source is None:
            continue
        names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        given = {names[at] if isinstance(at, int) and at < len(names) else str(at) for at in call.inputs}
        unread = [name for name in names if name in given - names_read(source) and ROTATING.search(name)]
        if unread:
            where = SourceLine(source.file, source.tree.lineno)
            yield Finding.named("rotary-unused", f"`{unread[0]}` is given to the module and no line reads it", where)
            return


@rule(of_dot_products=True)
def check_rotated_values(scores: Scores) -> Iterator[Finding | str]:
    """Whether the values are rotated."""
    structure = scores.structure
    for product in structure.value_products:
        values = scores.weights_and_values(product)[1][0]
        columns = structure.columns_in(values)
        projected = [one.out for one in structure.projections if columns & structure.columns_in(one.out)]
        apart = _difference(structure, [values])
        if apart < 1e-6 or not projected or any(_difference(structure, [value]) > 1e-9 for value in projected):
            continue
        rotation = _first_rotation(structure, values, projected[0])
        if rotation is not None and _adds_positions(structure, rotation):
            yield "something that differs from position to position is added to the values"
            return
        if _are_turned_back(scores, projected):
            yield "the values are rotated, and the results are rotated back"
            return
        where = None if rotation is None else _line_of(structure, rotation, product.operation)
        evidence = f"with the same token everywhere, the values differ from position to position by up to {apart:.4f}"
        yield Finding.named("rotary-on-values", evidence, where)
        return


def _line_of(structure: Structure, rotation: Operation, product: Operation) -> SourceLine | None:
    """Find the outermost line, of those that speak of values alone if there are any, that led to a rotation only."""
    own = [one for one in rotation.frames if one not in product.frames and one[0] is not structure.trace.caller]
    lines = [statement_of(*one) for one in own if not one[0].co_name.startswith("<")][::-1]
    alone = [one for one in lines if {role_of(name) for name in names_in(one.source)} & ROLES == {"values"}]
    return line_at((alone or lines)[0]) if lines else rotation.where


def _are_turned_back(scores: Scores, projected: list[Value]) -> bool:
    """Return whether the same change in each token's values moves that token's own output alike, wherever it stands.

    All weights are 1 meanwhile, because those of a token with itself may differ. Tokens of two streams are projected by
    other weights, and are not compared.
    """
    structure, noise = scores.structure, noise_of((4096,), seed=5)
    before: dict[tuple[int, int], Change] = {}
    for product in structure.value_products:
        operation, *factors = product.factors
        before[operation.number, factors[scores.weights_side(product)]] = torch.ones_like
    unmoved = replay(structure.trace, before=before)[structure.run.output.number]
    moves: dict[tuple[int, ...], list[Tensor]] = {}  # by the columns of a stream
    for token in range(structure.dependence.sizes[1]):
        after: dict[int, Change] = {}
        columns = set[int]()
        for value in projected:
            here = structure.dependence.token_of(value) == token
            columns |= set(structure.columns[value.number][here].tolist())
            move = (here * noise[structure.columns[value.number] % 4096]).view(value.tensor.shape)
            after[structure.trace.operations[value.made_by or 0].number] = partial(torch.add, move)
        output = replay(structure.trace, before=before, after=after)[structure.run.output.number]
        moves.setdefault(tuple(sorted(columns)), []).append((output - unmoved)[:, token])
    own = [torch.stack(one) for one in moves.values()]  # (token, b, width) of each stream
    size = max(float(one.abs().max()) for one in own)
    return size > 0 and all(float((one - one[0]).abs().max()) < 1e-6 * size for one in own)


def _adds_positions(structure: Structure, operation: Operation) -> bool:
    """Return whether something that does not come from x is added; a rotation adds two products of x."""
    return operation.name in SUMS and not all(map(structure.dependence.on_input, operation.inputs))


def _first_rotation(structure: Structure, values: Value, projected: Value) -> Operation | None:
    """Return the first operation after the projection that makes the values differ between positions."""
    later = (op for op in structure.ancestors_of([values]) if op.number > (projected.made_by or 0))
    ancestors = [op for op in later if not op.by(structure.trace.caller)]  # which gives x in pieces
    alike: dict[tuple, list[Value]] = {}  # the values that the same code made for one token after the other
    for operation in ancestors:
        alike.setdefault((*operation.frames[:1], operation.name), []).append(operation.outputs[0])
    return next((op for op in ancestors if _difference(structure, alike[*op.frames[:1], op.name]) > 1e-6), None)


def _difference(structure: Structure, values: list[Value]) -> float:
    """Return how much one column of a sample differs between tokens when all tokens are the same."""
    dependence, seen = structure.dependence, structure.run.with_equal_tokens
    tokens = torch.cat([dependence.token_of(value).flatten() for value in values])
    columns = torch.cat([structure.columns[value.number].flatten() for value in values])
    filled = tokens != UNLABELLED  # the other slots of a cache belong to no token
    if not filled.any() or (tokens[filled] < 0).any() or (columns[filled] == UNLABELLED).any():
        return 0.0
    samples = torch.cat([dependence.samples[value.number].flatten() for value in values])
    groups = torch.unique(torch.stack([samples, columns])[:, filled], dim=1, return_inverse=True)[1]
    elements = torch.cat([seen[value.number].double().flatten() for value in values])[filled]
    empty = torch.zeros(int(groups.max()) + 1, dtype=torch.float64)
    small, large = (empty.scatter_reduce(0, groups, elements, end, include_self=False) for end in ("amin", "amax"))
    return float((large - small).max())
