"""What reaches the output: who is mixed with which share, where it lands, and what is done to the heads afterwards."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .anatomy import Anatomy, differs, share_side
from .labels import NOTHING, carry
from .trace import Value


@dataclass(eq=False)
class Flow:
    """The numbers of attention in one order, whatever the code's was; (batch, head, query, key) where they are many.

    Attributes:
        raw: products of queries and keys; nan where they never met.
        operand: what the values were multiplied with.
        shares: how far the heads' results follow a change of each token's values: the weights that count.
        present: (batch, head, query), whether the row was found; a softmax of one score leaves no trace.
        landing: (token of the output, query), whose result reaches which row.
        same_for_heads: how far the output's reactions to the same change in each head are apart, or None for one head.
        finished: the values that a last projection reads, empty where there is none.
        reached: (head,), whether the output moves with the head's result.
    """

    raw: Tensor
    operand: Tensor
    shares: Tensor
    present: Tensor
    landing: Tensor
    same_for_heads: float | None
    finished: list[Value]
    reached: Tensor


def follow(anatomy: Anatomy) -> Flow:
    """Put rows in order and run the trace again with changed values and changed results.

    Args:
        anatomy: with rows.

    Returns:
        Flow.
    """
    batch, num_tokens = anatomy.sizes
    heads = anatomy.num_heads
    shape = (batch, heads, num_tokens, num_tokens)
    raw, operand = torch.full(shape, torch.nan, dtype=torch.float64), torch.zeros(shape, dtype=torch.float64)
    present = torch.zeros(shape[:3], dtype=torch.bool)
    raw_numbers, operand_numbers = raw.numpy(), operand.numpy()  # the same memory, thirty times faster to set
    scores = anatomy.raw.tolist()
    width = max(len(row.outs) for row in anatomy.rows)
    start: dict[int, Tensor] = {}
    query_of: dict[int, Tensor] = {}  # value -> for each number of a mix's result its query
    head_of: dict[int, Tensor] = {}
    column_of: dict[int, Tensor] = {}
    for row in anatomy.rows:
        if row.query < 0 or row.sample < 0:
            continue
        present[row.sample, row.head, row.query] = True
        for key, label, share in zip(row.keys, row.scores, row.shares, strict=True):
            if key >= 0:
                raw_numbers[row.sample, row.head, row.query, key] = scores[label]
                operand_numbers[row.sample, row.head, row.query, key] += share
        out = row.mix.out
        for held in (start, query_of, head_of, column_of):
            held.setdefault(out.number, torch.full((out.tensor.numel(),), NOTHING))
        where = torch.tensor(row.outs)
        place = (row.sample * heads + row.head) * num_tokens + row.query
        start[out.number][where] = place * width + torch.arange(len(row.outs))
        query_of[out.number][where] = row.query
        head_of[out.number][where] = row.head
        column_of[out.number][where] = torch.arange(len(row.outs))
    labels = carry(
        anatomy.trace, {number: one.view(anatomy.trace.values[number].tensor.shape) for number, one in start.items()}
    )
    finished = _finished(anatomy, labels)
    shares = _shares(anatomy, labels, finished, shape, width)
    landing, same, reached = _reactions(anatomy, query_of, head_of, column_of, heads)
    shares = operand.clone() if shares is None else shares
    return Flow(raw, operand, shares, present, landing, same, finished, reached)


def _finished(anatomy: Anatomy, labels: list[Tensor]) -> list[Value]:
    mixes = {mix.operation.number for mix in anatomy.mixes}
    found = []
    for product in anatomy.products:
        if product.operation.number in mixes:
            continue
        for (value, _), (other, _) in (product.sides(), product.sides()[::-1]):
            fixed = not anatomy.tokens[other.number].any()
            if fixed and (labels[value.number] != NOTHING).any() and value not in found:
                found.append(value)
    return found


def _shares(anatomy: Anatomy, labels: list[Tensor], finished: list[Value], shape: tuple, width: int) -> Tensor | None:
    """Change the values of one token at a time; None where the results can't be told apart any more."""
    trace = anatomy.trace
    points = finished or [value for value in (trace.output,) if value is not None]
    points = [value for value in points if (labels[value.number] != NOTHING).any()]
    count = shape[0] * shape[1] * shape[2]
    found = torch.full((count, shape[3]), torch.nan, dtype=torch.float64)
    for key in range(shape[3]):
        before = {}
        for mix in anatomy.mixes:
            side = 1 - share_side(anatomy, mix)
            value = mix.sides()[side][0]
            here = anatomy.single(value) == key
            before[mix.factors[0].number, mix.factors[1 + side]] = lambda tensor, here=here: (
                tensor + here.to(tensor.dtype)
            )
        seen = trace.replay(before=before)
        total, times = torch.zeros(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
        for value in points:
            which = labels[value.number].flatten()
            move = (seen[value.number] - trace.values[value.number].tensor).double().flatten()
            known = which != NOTHING
            total.index_add_(0, which[known] // width, move[known])
            times.index_add_(0, which[known] // width, torch.ones_like(move[known]))
        found[:, key] = total / times
    if found.isnan().all():
        return None
    return found.view(shape)


def _reactions(anatomy: Anatomy, query_of: dict, head_of: dict, column_of: dict, heads: int) -> tuple:
    trace = anatomy.trace
    num_tokens = anatomy.sizes[1]
    output = trace.output
    rows = output is not None and output.tensor.dim() == 3 and tuple(output.tensor.shape[:2]) == anatomy.sizes
    landing = torch.eye(num_tokens, dtype=torch.bool)
    if not rows:
        return landing, None, torch.ones(heads, dtype=torch.bool)
    noise = torch.randn(4096, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def run(groups: dict, which: int, by_column: bool) -> Tensor:
        after = {}
        for mix in anatomy.mixes:
            number = mix.out.number
            if number not in groups:
                continue
            here = (groups[number] == which).view(mix.out.tensor.shape)
            move = noise[column_of[number].clamp(min=0) % 4096 if by_column else torch.arange(here.numel()) % 4096]
            move = move.view(here.shape)
            after[mix.operation.number] = lambda tensor, here=here, move=move: tensor + (here * move).to(tensor.dtype)
        return trace.replay(after=after)[output.number]

    for query in range(num_tokens):
        landing[:, query] = differs(run(query_of, query, False), output.tensor).any(-1).any(0)
    moves = [run(head_of, head, True) - output.tensor for head in range(heads)]
    reached = torch.tensor([bool((move.abs() > 1e-12).any() or move.isnan().any()) for move in moves])
    same = None
    if heads > 1:
        size = max(float(move.abs().nan_to_num().max()) for move in moves)
        same = max(float((move - moves[0]).abs().nan_to_num().max()) for move in moves[1:]) / (size or 1.0)
    return landing, same, reached
