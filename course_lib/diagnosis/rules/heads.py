"""Each head must have its own weights and scores."""

import math
import re
from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.finding_pictures import picture_of_heads
from course_lib.diagnosis.locate import locate_attribute
from course_lib.diagnosis.measure import Attention, SoftmaxPath, Structure
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, Operation, SourceLine, line_at

SHARING = re.compile(r"narrow|\bshar(e|es|ed|ing)\b|(same|one) .*(weights|projection|matri)", re.I)
COPIES = ("expand", "repeat", "stack", "cat", "index")


@rule()
def check_scores_merged(path: SoftmaxPath) -> Iterator[Finding]:
    """Whether scores are summed over heads."""
    scores = path.scores
    sums = [op for op in path.run.live_operations if op.name in ("sum", "mean")]
    for operation in (op for op in sums if op.number in path.structure.score_descendants):
        labels = scores.labels[operation.inputs[0].number]
        axes = operation.args[1] if len(operation.args) > 1 else None
        if not axes or len(axes) != 1 or (labels == UNLABELLED).any():
            continue
        axis = axes[0] % labels.dim()
        compared = (scores.left.tokens[labels], scores.right.tokens[labels], scores.samples[labels])
        if labels.shape[axis] > 1 and not any((one.diff(dim=axis) != 0).any() for one in compared):
            evidence = f"`{operation.name}` runs over the {labels.shape[axis]} heads of the scores"
            yield Finding.named("heads-share-scores", evidence, operation.where)
            return


@rule(of_dot_products=True)
def check_heads(attention: Attention) -> Iterator[Finding | str]:
    """Whether each head has its own queries, keys and scores."""
    heads, first = attention.rows.num_heads, attention.rows.first_of_head
    queries = {row.query_columns for row in first.values()}
    values = {row.value_columns[0] for row in first.values()}
    if any(columns[1] == UNLABELLED for columns in queries):  # an operation hides where they come from
        return
    if heads > 1 and len(queries) == 1 and len(values) == 1 and _share_on_purpose(attention.structure):
        yield f"one matrix projects the columns of x for each of {heads} heads, which is right for narrow heads"
        return
    if heads > 1 and len(queries) == 1 and len(values) == 1:
        evidence = f"the queries, keys and values of all {heads} heads come from the same columns of weights"
        draw = partial(picture_of_heads, attention)
        yield Finding.named("heads-share-weights", evidence, _locate_shared_weights(attention.structure), draw)
        return
    evidence = _shared_scores(attention, same_queries=len(queries) == 1)
    if evidence:
        where = _locate_shared_scores(attention) or attention.structure.score_products[0].operation.where
        yield Finding.named("heads-share-scores", evidence, where, partial(picture_of_heads, attention))


def _share_on_purpose(structure: Structure) -> bool:
    """Return whether heads have columns of x of their own, and the documentation says that they share their weights."""
    code = structure.run.subject.original
    documented = any(map(SHARING.search, filter(None, (code.__doc__, type(code).__doc__))))
    return documented and _read_own_columns(structure)


def _read_own_columns(structure: Structure) -> bool:
    """Return whether the same column of weights is multiplied with different columns of x, head by head."""
    for product in structure.projections:
        made = structure.columns[product.out.number].flatten()
        for value, at in product.sides() if (made != UNLABELLED).all() else ():
            read = structure.columns[value.number].flatten()[at[:, 0]]
            apart = torch.unique(torch.stack([made, read]), dim=1).shape[1] > len(torch.unique(made))
            if structure.dependence.on_input(value) and (read != UNLABELLED).all() and apart:
                return True
    return False


def _shared_scores(attention: Attention, *, same_queries: bool) -> str:
    """Describe how the heads share their scores; "" if they don't."""
    heads, weights, options = attention.rows.num_heads, attention.applied_weights, attention.options
    if heads > 1 and same_queries:
        return f"{heads} heads weight different values by the scores of the same queries"
    if heads > 1 and options.num_kv_heads in (None, heads):
        varied = (weights.amax(-1) - torch.where(weights > 0, weights, torch.inf).amin(-1)).max() > 1e-9
        if varied and bool(((weights - weights[:, :1]).abs() < 1e-12).all()):
            return f"the weights of all {heads} heads are equal to 12 digits"
    wanted, terms = options.num_heads or 1, attention.structure.score_products[0].size
    width = len(attention.rows.all[0].outputs)
    divisible = terms % wanted == 0 and width % wanted == 0 and width >= wanted
    if heads == 1 and wanted > 1 and divisible and attention.influence.last_projected:
        return f"there is one pattern of weights for {wanted} heads; a score is a sum of {terms} terms"
    if heads == 1 and wanted > 1 and any(_keeps_one_of(attention, wanted)):
        return f"the scores of one head are taken from those of {wanted} heads, and weight the values of all"
    return ""


def _keeps_one_of(attention: Attention, count: int) -> Iterator[bool]:
    """Yield for each cut of the scores or weights whether it keeps one of some number of heads."""
    for operation in attention.run.live_operations:
        if operation.number in attention.structure.score_descendants and operation.name in ("select", "slice"):
            given, kept = operation.inputs[0].tensor.shape, operation.outputs[0].tensor
            yield count in given and kept.numel() * count == math.prod(given)


def _locate_shared_scores(attention: Attention) -> SourceLine | None:
    """Find the line that picks one head's scores for all, or reads scores that belong to another head."""
    scores, live = attention.rows.scores, attention.run.live
    readers: dict[int, list[Operation]] = {}
    for operation in attention.run.live_operations:
        if operation.number not in attention.structure.score_descendants or not scores.reaches(operation.outputs[0]):
            continue
        value = operation.inputs[0]
        if operation.name in ("select", "slice") and operation.outputs[0].tensor.numel() < value.tensor.numel():
            return operation.where
        readers.setdefault(value.number, []).append(operation)
    unused = any(product.operation.number not in live for product in attention.structure.score_products)
    several = [found for found in readers.values() if len(found) > 1]
    return line_at(several[0][0].outermost_statement) if unused and several else None


def _locate_shared_weights(structure: Structure) -> SourceLine | None:
    """Find the line that repeats one head: a list of one module, or copies of weights or projections."""
    subject, lists = structure.run.subject, (nn.ModuleList, nn.Sequential)
    same = [name for name, one in subject.modules.items() if isinstance(one, lists) and 1 == len({*one}) < len(one)]
    return (locate_attribute(subject, same[-1].split(".")[-1]) if same else None) or _locate_copy(structure)


def _locate_copy(structure: Structure) -> SourceLine | None:
    """Find the line that repeats weights or their projections, or calls the same projection again."""
    projected = {product.out.number for product in structure.projections}
    after = structure.trace.descendants(structure.projection_operations)
    for operation in structure.ancestors_of([value for value, _ in structure.score_products[0].sides()]):
        if operation.name not in COPIES:
            continue
        grows = operation.outputs[0].tensor.numel() > operation.inputs[0].tensor.numel()
        own = operation.number in after or not structure.dependence.on_input(operation.outputs[0])
        if grows and (own or operation.inputs[0].number in projected):
            return operation.where
    return line_at(structure.projections[-1].operation.outermost_statement) if structure.projections else None
