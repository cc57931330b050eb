"""Repeat the run with changed values, then with changed results of single rows, to see what reaches the output."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, Value, propagate, replay

from .dependence import RELUS
from .operation_names import BATCH_NORMS, LAYER_NORMS
from .rows import Rows
from .run import changed, noise_of


@dataclass(frozen=True, eq=False)
class Influence:
    """How the output responds to changes of values and of heads' results.

    Attributes:
        weights: (batch, head, query, key), how strongly the heads' results respond to a change of each token's values;
            nan where the results of the rows can no longer be distinguished.
        last_projected: the values that a last projection reads; empty if there is none.
        output_rows_of_query: bool (token of the output, query), whether the query's result reaches the row.
        head_affects_output: bool (head,), whether the output changes with the head's result.
        head_difference: how much the output's responses to the same change in each head differ; inf for one head.
        head_angle: the same of the directions of the responses of each row, as a gate of each head leaves them.
    """

    weights: Tensor
    last_projected: list[Value]
    output_rows_of_query: Tensor
    head_affects_output: Tensor
    head_difference: float
    head_angle: float


def measure_influence(rows: Rows) -> Influence:
    """Change one token's values, one query's results and one head's results in turn, and run again."""
    output, num_tokens = rows.run.output.tensor, rows.dependence.sizes[1]
    start, width = _row_labels(rows)
    shaped = {number: one.view(rows.trace.values[number].tensor.shape) for number, one in start.items()}
    labels = propagate(rows.trace, shaped, sums=True)
    last_projected = _last_projected(rows, labels)
    queries, heads = torch.tensor([(row.query, row.head) for row in rows.all] + [(UNLABELLED, UNLABELLED)]).T
    reached = []
    for query in range(num_tokens):
        chosen = {number: queries[label // width] == query for number, label in start.items()}
        reached.append(changed(_output_with_noise(rows, chosen), output).any(-1).any(0))
    responses = []
    for head in range(rows.num_heads):
        chosen = {number: heads[label // width] == head for number, label in start.items()}
        columns = {number: queries[label // width] * width + label % width for number, label in start.items()}
        responses.append(_output_with_noise(rows, chosen, columns) - output)
    affects = torch.tensor([bool((one.abs() > 1e-12).any() or one.isnan().any()) for one in responses])
    weights = _weights(rows, labels, width, _weighted_sums(rows, labels, last_projected or [rows.run.output]))
    angle = _difference([torch.nn.functional.normalize(one, dim=-1) for one in responses])
    return Influence(weights, last_projected, torch.stack(reached, dim=1), affects, _difference(responses), angle)


def _row_labels(rows: Rows) -> tuple[dict[int, Tensor], int]:
    """Label each element of a value product's result with row * width + column; return the labels and the width.

    A row that is computed in parts has the number of its first part.
    """
    width = max(len(row.outputs) for row in rows.all)
    first: dict[tuple[int, int, int], int] = {}
    found: dict[int, Tensor] = {}
    for number, row in enumerate(rows.all):
        out = row.product.out
        labels = found.setdefault(out.number, torch.full((out.tensor.numel(),), UNLABELLED))
        of_row = first.setdefault((row.sample, row.head, row.query), number)
        labels[torch.tensor(row.outputs)] = of_row * width + torch.arange(len(row.outputs))
    return found, width


def _last_projected(rows: Rows, labels: list[Tensor]) -> list[Value]:
    value_products = {product.operation.number for product in rows.structure.value_products}
    found: list[Value] = []
    for product in rows.structure.products:
        number = product.operation.number
        if number in value_products or number not in rows.run.live or product.size == 1:
            continue
        for (value, _), (other, _) in (product.sides(), product.sides()[::-1]):
            fixed = not rows.dependence.on_input(other)
            if fixed and (labels[value.number] != UNLABELLED).any() and value not in found:
                found.append(value)
    return found


def _weighted_sums(rows: Rows, labels: list[Tensor], results: list[Value]) -> list[Value]:
    """Return the heads' results, or what the first ReLU or norm before them reads: behind it they are no sums."""
    before = rows.trace.ancestors(results)
    for operation in rows.run.live_operations:
        bends = operation.number in before and operation.name in (*RELUS, *LAYER_NORMS, *BATCH_NORMS)
        if bends and (labels[operation.inputs[0].number] != UNLABELLED).any():
            return [operation.inputs[0]]
    return results


def _weights(rows: Rows, labels: list[Tensor], width: int, results: list[Value]) -> Tensor:
    """Change the values of one token at a time and measure how the results of each row respond."""
    batch, num_tokens = rows.dependence.sizes
    count = batch * rows.num_heads * num_tokens
    cells = torch.tensor([(row.sample * rows.num_heads + row.head) * num_tokens + row.query for row in rows.all])
    columns = []
    for key in range(num_tokens):
        before = {}
        for product in rows.structure.value_products:
            side = 1 - rows.scores.weights_side(product)
            here = rows.dependence.token_of(product.sides()[side][0]) == key
            operation, *factors = product.factors
            before[operation.number, factors[side]] = partial(_add, here)
        seen = replay(rows.trace, before=before)
        total, times = torch.zeros(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
        for value in results:
            label = labels[value.number].flatten()
            known = label != UNLABELLED
            cell = cells[label[known] // width]
            move = (seen[value.number] - value.tensor).double().flatten()[known]
            total.index_add_(0, cell, move)
            times.index_add_(0, cell, torch.ones_like(move))
        columns.append(total / times)
    return torch.stack(columns, dim=1).view(batch, rows.num_heads, num_tokens, num_tokens)


def _output_with_noise(rows: Rows, chosen: dict[int, Tensor], columns: dict[int, Tensor] | None = None) -> Tensor:
    """Return the output with noise added to the `chosen` elements of the value products' results.

    Elements with the same label in `columns` get the same noise; without `columns`, each gets its own. Noise that is
    the same for all tokens would not pass a norm over the tokens.
    """
    noise = noise_of((4096,), seed=3)
    after = {}
    for product in rows.structure.value_products:
        number = product.out.number
        if number in chosen:
            which = torch.arange(len(chosen[number])) if columns is None else columns[number]
            move = (chosen[number] * noise[which % 4096]).view(product.out.tensor.shape)
            after[product.operation.number] = partial(_add, move)
    return replay(rows.trace, after=after)[rows.run.output.number]


def _add(move: Tensor, tensor: Tensor) -> Tensor:
    return tensor + move.to(tensor.dtype)


def _difference(responses: list[Tensor]) -> float:
    if len(responses) < 2:
        return torch.inf
    size = max(float(one.abs().nan_to_num().max()) for one in responses)
    return max(float((one - responses[0]).abs().nan_to_num().max()) for one in responses[1:]) / (size or 1.0)
