"""Follow numbers through fused attention as through its single operations: scores, mask, softmax, sum of values."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.recorder import Step

from .recorded_call import Table, cells_by_element
from .shown_tensor import ShownTensor

OP = "scaled_dot_product_attention"
NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def fused_attention_sources(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Table] | None:
    """Return the sources of fused attention, or None for other operations.

    A context reads its query, the visible keys and their values, and its row of the mask, hidden numbers included. The
    only visible key has a weight of 1 whatever it and the query are, so both are left out.
    """
    if step.op != OP:
        return None
    arguments = dict(zip(NAMES, step.call.args, strict=False)) | step.call.kwargs
    query, key, value, mask = arguments["query"], arguments["key"], arguments["value"], arguments.get("attn_mask")
    of = {id(tensor): source for tensor, source in zip(step.call.tensors, inputs, strict=True)}
    if mask is not None and of[id(mask)].is_overwritten_after(step.number):
        return None  # what it hid then is not known any more
    visible = visible_keys(query, key, mask, causal=bool(arguments.get("is_causal")))
    shape = visible.shape[:-1]  # (..., query)
    row = torch.arange(shape.numel()).view(shape)[..., None].expand(result.shape).flatten()[result.cells]
    column = result.cells % result.shape[-1]
    row = torch.unravel_index(row, shape)
    visible = visible[row]  # (cell, key)
    compared = visible & (visible.sum(1, keepdim=True) > 1)
    tables: dict[int, Tensor] = {}
    for tensor, name in ((query, "query"), (key, "key"), (value, "value"), (mask, "mask")):
        if tensor is None:
            continue
        i = next(i for i, other in enumerate(step.call.tensors) if other is tensor)
        table = cells_by_element(result, inputs[i])
        numbers = _of_queries(torch.arange(tensor.numel()).view(tensor.shape), shape, name)
        table |= _marked(table, numbers[row], visible if name in ("value", "mask") else compared, column, name)
        tables[i] = tables[i] | table if i in tables else table
    return [tables.get(i) for i in range(len(inputs))]


def visible_keys(query: Tensor, key: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
    """Return whether the weight of each key is above 0, (..., query, key)."""
    query, key = query.detach().cpu().double(), key.detach().cpu().double()
    if key.shape[-3:-2] != query.shape[-3:-2] and key.dim() > 2:  # grouped queries: heads share keys
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
    scores = (query @ key.mT).zero_()  # a score between tokens hides none of them
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf)
    if mask is not None:
        mask = mask.detach().cpu()
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) != 0


def _of_queries(numbers: Tensor, shape: torch.Size, name: str) -> Tensor:
    """Return the numbers of an input that belong to each query: (..., query, feature) or (..., query, key, feature)."""
    if name in ("query", "mask"):
        return numbers.expand(*shape, numbers.shape[-1])
    if numbers.dim() > 2 and len(shape) > 1 and numbers.shape[-3] != shape[-2]:
        numbers = numbers.repeat_interleave(shape[-2] // numbers.shape[-3], dim=-3)
    return numbers.unsqueeze(-3).expand(*shape, *numbers.shape[-2:])


def _marked(table: Tensor, numbers: Tensor, visible: Tensor, column: Tensor, name: str) -> Tensor:
    """Return a table with those numbers marked that a context of each cell reads."""
    reads = torch.zeros_like(table)
    if name == "mask":
        return reads.scatter_(1, numbers, True)
    if name == "query":
        return reads.scatter_(1, numbers, visible.any(1, keepdim=True).expand(numbers.shape))
    if name == "value":
        numbers = numbers.gather(2, column[:, None, None].expand(-1, numbers.shape[1], 1))
    seen = visible[:, :, None].expand(numbers.shape)
    cells = torch.arange(len(reads))[:, None, None].expand(numbers.shape)
    reads[cells[seen], numbers[seen]] = True
    return reads
