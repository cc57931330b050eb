"""Where one attention of a run is computed: in a module, or in some operations of the whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType

import torch
from torch import Tensor, nn

from course_lib.tracing import SourceLine, Trace

from .dataflow import X
from .module_inputs import Names
from .score_products import ScoreProduct

Sizes = tuple[int, int]  # batch, num_tokens
Frames = tuple[tuple[CodeType, int], ...]


@dataclass(frozen=True)
class Point:
    """An operation, known by the lines that run it, because another x may take more or fewer operations.

    Attributes:
        name: of the operation; "" for x itself.
        frames: the author's code objects and instructions that caused it.
        occurrence: how many operations of the same name and frames came before it.
    """

    name: str = ""
    frames: Frames = ()
    occurrence: int = 0


@dataclass(frozen=True)
class Segment:
    """The operations from the tokens that queries, keys and values are made from up to the rows of the output.

    Attributes:
        queries: makes the tokens of queries, and those of keys and values unless `keys` does.
        keys: makes the tokens of keys and values; None if they are those of queries.
        output: makes the last tensor, (batch, token, ...), that comes from this attention and from no later one.
        numbers: of the operations in between, in the run of the whole.
        columns_first: the axes of the tokens where they come after those of batch and width, or ().
        output_columns_first: whether those of the output do.
    """

    queries: Point
    keys: Point | None
    output: Point
    numbers: Sequence[int]
    columns_first: tuple[int, ...] = ()
    output_columns_first: bool = False


def point_of(trace: Trace, number: int) -> Point:
    """Return the point of an operation of a run, or of x."""
    if number == X:
        return Point()
    operation, before = trace.operations[number], trace.operations[:number]
    same = sum(one.name == operation.name and one.frames == operation.frames for one in before)
    return Point(operation.name, operation.frames, same)


@dataclass(frozen=True)
class Apart:
    """The operations from the rows of queries, of keys and of values up to the rows of the output.

    Attributes:
        entries: make the rows: of all three, or of queries and of the others, or of each.
        shapes: of these, (..., row, width).
        output: makes the first rows of the output.
        read: storages of what the operations in between read besides the rows, in the run of the whole.
        row_axes: the axis of the rows in each entry, and last in the output; -2 in (batch, row, width).
    """

    entries: Sequence[Point]
    shapes: Sequence[tuple[int, ...]]
    output: Point
    read: frozenset[int]
    row_axes: Sequence[int]


@dataclass(frozen=True, eq=False)
class Place:
    """Where one attention is computed.

    Attributes:
        name: path of the module, or its class where it has no path.
        module: of the copy that was traced, or None if no module computes this attention alone.
        path: of the module in any copy, or None if the code is a function, whose modules are not copied.
        calls: which calls of the module belong to this attention, counted from 0; several if tokens or samples come
            in pieces; empty for all.
        entries: position or name of each argument to replace by x; empty if the attention can't be examined.
        given: (batch, token, width), the tokens that the module was given.
        in_pieces: whether the tokens or samples come in several calls.
        tokens_first: whether the module takes (token, batch, width).
        of_memory: whether keys come from a different input than queries, or the attention makes such an input: nothing
            says then whether it should be causal.
        context: position or name of each argument that brings the tokens of keys and values, if they are not x's.
        num_context: how many such tokens there are; `given` then holds both, as `joined` of measure/context.py.
        widths: of the tokens of queries, and of those of keys.
        called: the author's line that the scores are computed in, which may be outside of the module.
        segment: the operations that compute it, where no module does this alone.
        apart: the same where queries, keys or values are made from rows that are no tokens of x.
        products: of its queries and keys.
        missing: why the attention can't be examined, or "".
    """

    name: str
    module: nn.Module | None = None
    path: str | None = None
    calls: tuple[int, ...] = ()
    entries: Names = ()
    given: Tensor | None = None
    in_pieces: bool = False
    tokens_first: bool = False
    of_memory: bool = False
    context: Names = ()
    num_context: int = 0
    widths: tuple[int, int] = (0, 0)
    called: SourceLine | None = None
    segment: Segment | None = None
    apart: Apart | None = None
    products: Sequence[ScoreProduct] = ()
    missing: str = ""


def joined(pieces: list[Tensor], sizes: Sizes) -> tuple[Tensor | None, bool]:
    """Join pieces of tokens to (batch, token, width), or None if they do not fit; also return if tokens are first."""
    batch, num_tokens = sizes
    pieces = [one[None] if one.dim() == 2 else one for one in pieces]
    if len(pieces) == 1 and pieces[0].shape[:2] == (num_tokens, batch) and batch != num_tokens:
        return pieces[0].transpose(0, 1).contiguous(), True
    for axis in (1, 0):
        if len({one.shape[:axis] + one.shape[axis + 1 :] for one in pieces}) == 1:
            whole = torch.cat(pieces, dim=axis)
            if whole.shape[:2] == sizes:
                return whole, False
    return None, False
