"""Queries and keys are normalised over the elements of a head, or of all heads together, and never over tokens."""

import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.measure import BATCH_NORMS, LAYER_NORMS, Attention, Dependence, NoStructure, Structure
from course_lib.diagnosis.registry import rule
from course_lib.tracing import FACTORS, UNLABELLED, Operation, Value, contractions, line_at

PAIR = ("queries", "keys")
OF_BOTH = re.compile("(qk|kq)_?[a-z]*_?norm|norm[a-z]*_(qk|kq)(_|$)", re.I)
# reduction -> the index of the argument that names its axes
AXES = {"mean": 1, "sum": 1, "var": 1, "std": 1, "var_mean": 1, "linalg_vector_norm": 2, "norm": 2}


@rule(of_dot_products=True)
def check_norm(structure: Structure) -> Iterator[Finding]:
    """The axis over which queries and keys are normalised."""
    heads = _heads(structure)
    for operation in structure.ancestors_of(structure.score_factors):
        groups = _groups(operation, structure.columns[operation.inputs[0].number]) if operation.inputs else None
        if groups is None or operation.number in structure.score_descendants or (groups == UNLABELLED).any():
            continue
        mixed = [set(group) for group in groups.unique(dim=0).tolist()]
        if all(len(columns) > 1 for columns in mixed) and any(_mixes(columns, heads) for columns in mixed):
            evidence = f"`{operation.name}` runs over one element of each of several heads"
            yield Finding.named("norm-wrong-axis", evidence, operation.where)
            return


@rule(of_dot_products=True)
def check_sides_of_norm(attention: Attention) -> Iterator[Finding]:
    """Whether queries and keys are normalised alike."""
    structure, rows = attention.structure, attention.rows
    product, row = rows.score_product(rows.all[0]), rows.all[0]
    sides = [product.left, product.right][:: 1 if rows.scores.keys_are_right(row.product) else -1]
    values = rows.scores.weights_and_values(row.product)[1][0]
    normed = {role: _last_norm(structure, side) for role, side in zip(PAIR, sides, strict=True)}
    (plain, *others) = sorted(PAIR, key=lambda role: normed[role] is not None)
    norm, of_values = normed[others[0]], _last_norm(structure, values)
    if rows.in_pieces or normed[plain] is not None or norm is None:
        return
    said = next(filter(None, map(_name_of_both, structure.run.subject.modules.values())), None)
    if of_values is not None and (plain == "keys" or said is not None):
        where = line_at(of_values.statement_in(product.operation.code))
        evidence = f"the {others[0]} and the values are normalised, and the {plain} are not"
        yield Finding.unnamed(f"values are normalised in place of {plain}", evidence, where)
    elif said is not None:
        where = line_at(norm.statement_in(product.operation.code))
        evidence = f"the {others[0]} are normalised, and the {plain} are not, although `{said}` says both"
        yield Finding.unnamed(f"the {plain} are not normalised", evidence, where)


@rule()
def check_norm_of_tokens(dependence: Dependence, missing: NoStructure) -> Iterator[Finding]:
    """Whether queries and keys are normalised over tokens."""
    run, (_, num_tokens) = missing.run, dependence.sizes
    compared = [
        product
        for product in contractions(run.trace)
        if product.out.tensor.dim() > 1 and product.out.tensor.shape[-2:] == (num_tokens, num_tokens)
    ]
    for operation in run.live_operations:
        normalises = operation.name in (*AXES, *LAYER_NORMS, *BATCH_NORMS)
        if not normalises or not operation.inputs:
            continue
        given, made = operation.inputs[0], operation.outputs[0]
        if not dependence.keeps_tokens_apart(given) or not dependence.combines_tokens(made):
            continue
        projected = any(one.name in FACTORS for one in run.in_order(run.trace.ancestors([given])))
        after = run.trace.descendants({operation.number})
        if projected and any(
            after.intersection(run.trace.ancestors([product.left, product.right])) for product in compared
        ):
            evidence = f"`{operation.name}` of queries or keys runs over the {num_tokens} tokens"
            yield Finding.named("norm-wrong-axis", evidence, operation.where)
            return


def _last_norm(structure: Structure, side: Value) -> Operation | None:
    """Return the last norm behind some queries, keys or values that comes after their projection; None without one."""
    before = structure.ancestors_of([side])
    projected = {one.number for one in before} & structure.projection_operations
    if not projected:
        return None
    after = structure.trace.descendants({max(projected)}) - structure.score_descendants
    norms = [one for one in before if one.number in after and one.name in (*LAYER_NORMS, *AXES) and one.name != "sum"]
    return norms[-1] if norms else None


def _name_of_both(module: nn.Module) -> str | None:
    """Return the name of an option of a module that says a norm of queries and keys, and is on; None without one."""
    return next((name for name, held in vars(module).items() if OF_BOTH.search(name) and held is True), None)


def _heads(structure: Structure) -> list[frozenset[int]]:
    """Return the sets of columns that make one query or one key."""
    found: set[frozenset[int]] = set()
    for product in structure.score_products:
        for value, at in product.sides():
            rows = structure.columns[value.number].flatten()[at].unique(dim=0).tolist()
            found |= {frozenset(row) - {UNLABELLED} for row in rows}
    return [head for head in found if head]


def _mixes(columns: set[int], heads: list[frozenset[int]]) -> bool:
    """Return whether some columns belong to several heads, but are neither all of one nor a part that heads share."""
    touched = [head for head in heads if head & columns]
    return len(touched) > 1 and not any(head <= columns or columns <= head for head in touched)


def _groups(operation: Operation, labels: Tensor) -> Tensor | None:
    """Return the labels of the elements that a reduction puts together, (group, element); None for other operations."""
    axes: list[int]
    if operation.name in LAYER_NORMS:
        axes = [*range(-len(operation.args[1]), 0)]
    elif operation.name in AXES and len(operation.args) > AXES[operation.name]:
        named = operation.args[AXES[operation.name]]
        axes = [named] if isinstance(named, int) else [int(axis) for axis in named or ()]
    else:
        return None
    if not axes:
        return None
    last = list(range(-len(axes), 0))
    size = int(torch.tensor([labels.shape[axis] for axis in axes]).prod())
    return labels.movedim(axes, last).reshape(-1, size)
