"""A learned table of biases must be read by displacement in a grid, and each head must get its own column."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_held
from course_lib.diagnosis.measure import Attention, Run, SoftmaxPath, by_query_and_key
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, VIEWS, Operation, SourceLine, Value, propagate, storage_of

LOOKUPS = ("index", "embedding", "index_select")


@rule()
def check_relative_table(run: Run) -> Iterator[Finding]:
    """Whether displacements share an entry of a table."""
    for rows, index, storage, line in _indices(run):
        tokens = math.isqrt(index.numel())
        if tokens**2 != index.numel() or index.is_floating_point():
            continue
        shapes = _grids(tokens, rows)
        if shapes and not any(_is_by_displacement(index, *shape) for shape in shapes):
            height, width = shapes[0]
            evidence = f"a table of {rows} entries, one for each displacement in a grid of {height} by {width}, "
            evidence += f"is read at {len(index.unique())} of them, or at one entry for several displacements"
        elif not shapes and _is_by_distance_from_one(index.reshape(tokens, tokens)):
            evidence = (
                f"a table of {tokens} entries, one for each distance of a token of {tokens} from one in a corner, "
                "is read at different entries for the distances of tokens from themselves"
            )
        else:
            continue
        where = locate_held(run.subject, {storage}) or line
        yield Finding.unnamed("relative positions are read from the entries of others", evidence, where)
        return


def _indices(run: Run) -> Iterator[tuple[int, Tensor, int, SourceLine | None]]:
    """Yield how many rows a table has, the index of the rows that are read, its memory and the line that reads.

    Tables that x does not change count, and integers that a module holds for a table that was read before the run.
    """
    of_input = run.trace.descendants_of_input()
    for operation in run.live_operations:
        table, *indices = operation.inputs or (None,)
        if operation.name not in LOOKUPS or table is None or table is run.trace.x or table.made_by in of_input:
            continue
        axes = [at for at, one in enumerate(operation.args[1]) if one is not None] if operation.name == "index" else [0]
        axes = [operation.args[1]] if operation.name == "index_select" else axes
        sizes = [table.tensor.shape[axis] for axis in axes]
        if len(indices) == 1 == len(axes):
            yield sizes[0], indices[0].tensor, indices[0].storage, operation.where
        elif len(indices) == 2 == len(axes) and indices[0].tensor.shape == indices[1].tensor.shape:
            both = indices[0].tensor * sizes[1] + indices[1].tensor
            yield math.prod(sizes), both, indices[1].storage, operation.where
    called = {call.module for call in run.trace.calls}
    for module in called:
        for held in {**module._buffers, **vars(module)}.values():
            if isinstance(held, Tensor) and held.dtype == torch.long and held.dim() == 2:
                yield 0, held, storage_of(held), None


@rule(of_dot_products=True)
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


def _is_by_distance_from_one(index: Tensor) -> bool:
    """Return whether a token reads all entries, once for each other token, others do not, and their own entries differ.

    So a table is read whose entries are for the distances in a grid, if these are wrong.
    """
    tokens = len(index)
    entries = int(index.max()) + 1
    full = [[len(row.unique()) == entries for row in side] for side in (index, index.mT)]
    from_one = entries == tokens and any(any(side) and not all(side) for side in full)
    return from_one and len(index.diagonal().unique()) > 2
