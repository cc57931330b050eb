"""A learned table of biases must be read by displacement in a grid, and each head must get its own column."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_held
from course_lib.diagnosis.measure import Attention, Run, SoftmaxPath, by_query_and_key
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, VIEWS, Operation, Value, propagate

LOOKUPS = ("index", "embedding", "index_select")


@rule(order=259)
def check_relative_table(run: Run) -> Iterator[Finding]:
    """Whether displacements share an entry of a table."""
    learned = {read.storage for reads in run.parameter_reads.values() for read in reads}
    for operation in run.live_operations:
        if operation.name not in LOOKUPS or operation.inputs[0].storage not in learned or len(operation.inputs) != 2:
            continue
        table, index = (value.tensor for value in operation.inputs)
        shapes = _grids(math.isqrt(index.numel()), len(table))
        if math.isqrt(index.numel()) ** 2 != index.numel() or index.is_floating_point() or not shapes:
            continue
        if not any(_is_by_displacement(index, *shape) for shape in shapes):
            height, width = shapes[0]
            evidence = f"a table of {len(table)} entries, one for each displacement in a grid of {height} by {width}, "
            evidence += f"is read at {len(index.unique())} of them, or at one entry for several displacements"
            where = locate_held(run.subject, {operation.inputs[1].storage}) or operation.where
            yield Finding.unnamed("relative positions are read from the entries of others", evidence, where)
            return


@rule(order=253, of_dot_products=True)
def check_heads_of_table(attention: Attention, path: SoftmaxPath) -> Iterator[Finding]:
    """The columns of a table that each head gets."""
    heads, run = attention.rows.num_heads, path.run
    for operation in path.masking if heads > 1 else ():
        added = [value for value in operation.inputs if not path.dependence.on_input(value)]
        read = {one.number for op in path.structure.ancestors_of(added) for one in op.inputs}
        for name, values in run.parameter_reads.items():
            table = next((value for value in values if value.number in read), None)
            if table is None or table.tensor.dim() != 2 or table.tensor.shape[1] != heads:
                continue
            columns = _columns_added(attention, path, operation, table)
            wrong = [head for head, one in enumerate(columns or ()) if len(one) > 1]
            if wrong and columns is not None and len(set().union(*columns)) == heads:
                views = [one for one in path.structure.ancestors_of(added) if one.name in VIEWS and one.where]
                evidence = f"head {wrong[0]} gets biases from the columns {sorted(columns[wrong[0]])} of `{name}`"
                where = (views or [operation])[-1].where
                yield Finding.unnamed("biases of a table go to other heads and tokens", evidence, where)
                return


def _columns_added(
    attention: Attention, path: SoftmaxPath, operation: Operation, table: Value
) -> list[set[int]] | None:
    """Return which columns of a table an operation adds to the scores of each head; None if some are unknown."""
    columns = torch.arange(table.tensor.shape[1]).expand(table.tensor.shape).contiguous()
    labels = propagate(path.trace, {table.number: columns})
    given = next((labels[one.number] for one in operation.inputs if (labels[one.number] != UNLABELLED).any()), None)
    scores = path.scores.labels[operation.outputs[0].number]
    if given is None:
        return None
    by_head = by_query_and_key(attention, scores.flatten().tolist(), given.expand(scores.shape).flatten().tolist())
    known = by_head[~by_head.isnan()]
    if not len(known) or (known == UNLABELLED).any():
        return None
    return [{int(one) for one in head[~head.isnan()].unique()} for head in by_head]


def _grids(num_tokens: int, rows: int) -> list[tuple[int, int]]:
    """Return the (height, width) of the grids of some tokens that have so many displacements."""
    heights = (one for one in range(2, num_tokens // 2 + 1) if num_tokens % one == 0)
    return [(h, num_tokens // h) for h in heights if (2 * h - 1) * (2 * (num_tokens // h) - 1) == rows]


def _is_by_displacement(index: Tensor, height: int, width: int) -> bool:
    """Return whether pairs of tokens, row by row, read the same entry just if they have the same displacement."""
    at = torch.arange(height * width)
    down, right = at // width, at % width
    moved = (down[:, None] - down) * (2 * width) + right[:, None] - right
    pairs = torch.stack([moved.flatten(), index.flatten().long().cpu()])
    counts = {len(pairs[0].unique()), len(pairs[1].unique()), len(pairs.unique(dim=1).T)}
    return len(counts) == 1
