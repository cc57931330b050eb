"""Every matrix of weights must have an effect, and a gate that is computed must be applied."""

import ast
import math
import re
from collections.abc import Iterator
from itertools import permutations

from torch import nn

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import attributes_in_source, base_that_builds, locate_discarded, locate_return
from course_lib.diagnosis.measure import OUTPUT, Attention, Run, Structure, role_of, zero_weights
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, Operation, SourceLine, line_at
from course_lib.wording import listed

GATE = re.compile(r"gat(e|ing)|(^|[._])g(_?proj)?([._]|$)", re.I)
PARTS = 3  # of weights that project queries, keys and values
PAIR = ("queries", "keys")  # whose norms have the same weights, and are called in this order
MULTIPLICATIONS = ("mul", "mul_")
SQUASHES = ("sigmoid", "silu", "tanh", "sigmoid_", "silu_", "tanh_", "hardsigmoid")


@rule()
def check_zeros(run: Run) -> Iterator[str]:
    """Weights that are all zeros, as before training."""
    if run.subject.awake:
        names = zero_weights(run.subject.examined_in(run.subject.original))
        zeros = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}` and {len(names) - 1} more"
        yield f"{zeros}: all zeros, so that nothing passes; it was examined with random numbers in place of these"


@rule()
def check_talking_heads(run: Run) -> Iterator[str]:
    """Products that combine the heads."""
    if run.subject.talking_heads:
        yield "its heads are mixed, as talking heads are; each was examined without that"


@rule()
def check_gate(structure: Structure) -> Iterator[Finding]:
    """Whether a gate is applied."""
    run = structure.run
    for squash in _idle_squashes(structure):
        evidence = (
            f"`{squash.name.rstrip('_')}` of a projection of the tokens is computed and does not change the output"
        )
        yield Finding.named("gate-unused", evidence, _locate_idle(run, squash))
        return
    for name in run.unused_parameters:
        if GATE.search(name.removesuffix(".weight")) and not _is_optional(run, name):
            shape = tuple(run.subject.parameters[name.partition("[")[0]].shape)
            evidence = f"`{name}` {shape} does not change the output"
            squashes = [one for one in run.live_operations if one.name in SQUASHES and one.where]
            unread = not run.parameter_reads.get(name.partition("[")[0])
            where = squashes[0].where if unread and len(squashes) == 1 else None  # the gate is made of something else
            yield Finding.named("gate-unused", evidence, where or (locate_return(_own(run)[-1]) if _own(run) else None))
            return


@rule()
def check_dead(attention: Attention) -> Iterator[Finding]:
    """Whether each matrix changes the output."""
    run = attention.run
    if run.live.isdisjoint(attention.structure.value_product_descendants):
        return  # of no attention whose results are thrown away does any matrix change the output
    merged = attention.rows.num_heads * len(attention.rows.all[0].outputs)
    for name in run.unused_parameters:
        whole, _, part = name.partition("[")
        shape = tuple(run.subject.parameters[whole].shape)
        role = _plays_role(attention.structure, whole)
        as_output = OUTPUT.search(whole) and merged in shape and not attention.influence.last_projected
        if (
            part
            or role
            or as_output
            or GATE.search(whole)
            or _is_optional(run, name)
            or _is_multiplied_by_zero(run, name)
            or _reads_few_tokens(run, whole)
            or (not run.parameter_reads.get(whole) and base_that_builds(run, whole))
        ):
            continue
        evidence = f"`{name}` {shape} does not change the output"
        yield Finding.named("dead-parameter", evidence, _locate_dead(run, whole))
        return


def _plays_role(structure: Structure, name: str) -> bool:
    """Return whether a parameter is called after a role and may project tokens for it, as no norm or table does.

    If it is the only one of these that is never read, its role goes without a projection.
    """
    run = structure.run
    if not _is_called_after_role(name):
        return False
    storages = {value.storage for value in run.parameter_reads.get(name, [])}
    if not storages:
        unread = (one for one in run.subject.parameters if one not in run.parameter_reads)
        return sum(map(_is_called_after_role, unread)) > 1
    own = [one for one in structure.projections if any(value.storage in storages for value in one.operation.inputs)]
    before = (structure.trace.ancestors([value for value, _ in one.sides()]) for one in own)
    return any(structure.projection_operations.isdisjoint(numbers) for numbers in before)


def _is_called_after_role(name: str) -> bool:
    return role_of(name.removesuffix(".weight").split(".")[-1]) is not None


@rule(of_dot_products=True)
def check_packed(attention: Attention) -> Iterator[Finding]:
    """Whether each third of packed weights is used."""
    run, row, structure = attention.run, attention.rows.all[0], attention.structure
    product = attention.rows.score_product(row)
    values = attention.rows.scores.weights_and_values(row.product)[1][0]
    factors = (product.left, product.right, values)
    for name, reads in run.parameter_reads.items():
        shape, storages = run.subject.parameters[name].shape, {read.storage for read in reads}
        rows = shape[0] if len(shape) == 2 else 1
        made = [one for one in structure.projections if any(v.storage in storages for v in one.operation.inputs)]
        columns = set().union(*(structure.columns_in(one.out) for one in made)) - {UNLABELLED}
        plain = [one for one in factors if columns.isdisjoint(structure.columns_in(one))]
        if rows % PARTS or len(plain) != 1 or any(len(read.tensor) != rows for read in reads):
            continue
        parts = [slice(at, at + rows // PARTS) for at in range(0, rows, rows // PARTS)]
        idle = [part for part in parts if not run.matters(reads, part)]
        if len(idle) == 1:
            first = [one for one in structure.ancestors_of(plain) if one.where and run.trace.x in one.inputs]
            evidence = (
                f"rows {idle[0].start} to {idle[0].stop - 1} of `{name}` do not change the output; queries, keys or "
                "values are made without them"
            )
            yield Finding.named("dead-parameter", evidence, (first[-1] if first else product.operation).where)
            return


@rule(of_dot_products=True)
def check_elements_of_heads(attention: Attention) -> Iterator[Finding]:
    """Whether each head uses its own element of a parameter."""
    run, heads = attention.run, attention.rows.num_heads
    for name, reads in run.parameter_reads.items():
        owner = run.subject.modules.get(name.rpartition(".")[0])
        if heads < 2 or {*(read.tensor.shape for read in reads), run.subject.parameters[name].shape} != {(heads,)}:
            continue
        if owner is not None and type(owner).__module__.partition(".")[0] == "torch":  # as narrow as there are heads
            continue
        idle = [head for head in range(heads) if not run.matters(reads, slice(head, head + 1))]
        if 0 < len(idle) < heads:
            evidence = f"of `{name}`, with an element for each head, those of {listed(idle)} do not change the output"
            where = next((one.where for one in run.trace.operations if reads[0] in one.inputs), None)
            yield Finding.named("dead-parameter", evidence, where)
            return


@rule(of_dot_products=True)
def check_norms(structure: Structure) -> Iterator[Finding]:
    """Whether queries and keys each have their own norm."""
    run, product = structure.run, structure.score_products[0].operation
    for name, twin in _twins(run):
        readers = [one for one in run.readers_of(twin) if one.number in run.live]
        if run.parameter_reads.get(name) or not run.parameter_reads.get(twin) or all(_mentions(run, name)):
            continue
        if run.subject.parameters[name].dim() > 1 and not all(one.name in MULTIPLICATIONS for one in readers):
            continue  # a matrix, which is no part of a norm
        lines = list(dict.fromkeys(line_at(one.statement_in(product.code)) for one in readers))
        calls = "once" if len(lines) == 1 else f"{len(lines)} times"
        evidence = f"`{name}` is never used, and `{twin}` is used {calls}"
        role = next(role for role in map(role_of, name.split(".")[::-1]) if role in PAIR)
        where = lines[PAIR.index(role)] if len(lines) == len(PAIR) else None
        yield Finding.named("dead-parameter", evidence, where)
        return


def _twins(run: Run) -> Iterator[tuple[str, ...]]:
    """Yield pairs of names, of the queries and of the keys, such as "q_norm.weight" and "k_norm.weight"."""
    places: dict[tuple, list[str]] = {}  # the shape, and the parts of names without the role -> the names
    for name, tensor in run.subject.parameters.items():
        parts = name.split(".")
        for at, part in enumerate(parts):
            if role_of(part) in PAIR:
                places.setdefault((tensor.shape, *parts[:at], "", *parts[at + 1 :]), []).append(name)
    for names in places.values():
        if len(names) == len(PAIR):
            yield from permutations(names)


def _idle_squashes(structure: Structure) -> Iterator[Operation]:
    """Yield the operations that make a gate of a projection and reach no output."""
    run = structure.run
    after = structure.trace.descendants(structure.projection_operations)
    for operation in run.trace.operations:
        unused = operation.number not in run.returned and operation.number in after and operation.name in SQUASHES
        applied = (operation.name, operation.frames) in run.subject.used  # behind this attention, or in its next pass
        if unused and not applied and operation.number not in structure.score_descendants and operation.where:
            yield operation


def _own(run: Run) -> list[Operation]:
    return [operation for operation in run.live_operations if operation.code is not None]


def _locate_idle(run: Run, operation: Operation) -> SourceLine | None:
    """Find the line that throws away what an operation flows into."""
    after = [one for one in run.in_order(run.trace.descendants({operation.number})) if one.where]
    last = after[-1] if after else operation
    return locate_discarded(last) or last.where


def _locate_dead(run: Run, name: str) -> SourceLine | None:
    """Find the line that throws away what a parameter flows into, or where the code returns if it is never read."""
    readers = {one.number for one in run.readers_of(name)}
    after = [op for op in run.in_order(run.trace.descendants(readers) - run.live) if op.where] if readers else []
    if after:
        return locate_discarded(after[-1]) or after[-1].where
    return locate_return(_own(run)[-1]) if _own(run) else None


def _is_optional(run: Run, name: str) -> bool:
    """Return whether a parameter was not read in this run although a method of its owner mentions it.

    Such a branch runs with other arguments.
    """
    if run.parameter_reads.get(name.partition("[")[0]) or not isinstance(run.subject.code, nn.Module):
        return False
    return any(_mentions(run, name))


def _mentions(run: Run, name: str) -> Iterator[bool]:
    """Yield for each attribute on the way to a parameter whether a method of its owner, if not PyTorch's, reads it.

    Parts of which the run reads other parameters are left out.
    """
    path = name.partition("[")[0].split(".")
    for depth, attribute in enumerate(path):
        owner, part = run.subject.modules.get(".".join(path[:depth])), ".".join([*path[: depth + 1], ""])
        if owner is None or attribute.isdigit() or type(owner).__module__.split(".")[0] == "torch":
            continue
        if any(read.startswith(part) for read in run.parameter_reads):
            continue
        mentions = attributes_in_source(owner, attribute, built=False)
        yield any(isinstance(one.ctx, ast.Load) for one in mentions)


def _reads_few_tokens(run: Run, name: str) -> bool:
    """Return whether a parameter meets only some tokens, as that of a pooler does, which is no part of attention."""
    num_context, of_input = run.options.num_context, run.trace.descendants_of_input()
    counts = {run.x.shape[1], num_context or run.x.shape[1], run.x.shape[1] - num_context}  # of x and its context
    met = [
        value.tensor.shape
        for operation in run.readers_of(name)
        for value in operation.inputs
        if value is run.trace.x or value.made_by in of_input
    ]
    return bool(met) and not any(
        count in shape or math.prod(shape[:-1]) % count == 0 for shape in met for count in counts
    )


def _is_multiplied_by_zero(run: Run, name: str) -> bool:
    """Return whether a parameter reaches the output, and only zeros keep it from changing it."""
    return any(one.number in run.live for one in run.readers_of(name))
