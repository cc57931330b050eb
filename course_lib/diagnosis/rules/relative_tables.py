"""A learned table with an entry for each displacement in a grid must be read by displacement."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.locate import locate_held
from course_lib.diagnosis.measure import Run
from course_lib.diagnosis.registry import rule

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
