"""Arrange what a run computes between scores and softmax as (head, query, key), as far as it belongs to one score."""

from collections.abc import Iterable

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, Operation, Value

from .attention import Attention
from .softmax_path import SUMS, SoftmaxPath

ARITHMETIC = (*SUMS, "div", "div_", "tanh", "neg", "clamp", "pow")
HIDDEN = -1e4  # no score and no bias is as low


def by_query_and_key(attention: Attention, labels: Iterable[int], elements: Iterable[float]) -> Tensor:
    """Return the first sample's elements, (head, query, key); nan where none belongs to the score.

    Args:
        labels: the score that each element belongs to, or UNLABELLED.
    """
    of_score = dict(zip(labels, elements, strict=True))
    of_score.pop(UNLABELLED, None)
    table = torch.full(attention.expected.shape[1:], torch.nan, dtype=torch.float64)
    for row in attention.rows.all:
        for key, score in zip(row.score_keys, row.scores, strict=True):
            if row.sample == 0 and key >= 0 and score in of_score:
                table[row.head, row.query, key] = of_score[score]
    return table


def intended_logits(attention: Attention, path: SoftmaxPath, *, transposed: bool = False) -> Tensor | None:
    """Return the first sample's logits (head, query, key) as the code computes them, but with the intended mask.

    They are what the code gives to its softmax, biases and soft caps included. A key that it hides although it should
    be seen has the logit from before the mask, if nothing but masks comes between that and softmax. Where the weights
    are transposed after softmax, a row of weights belongs to a key, and so `transposed` is asked for.

    Returns:
        -inf where nothing should be seen; None if a logit that should be seen is not known.
    """
    softmaxes = _first_softmaxes(path)
    if not softmaxes:
        return None
    expected = attention.expected[0]
    logits = torch.full(expected.shape, torch.nan, dtype=torch.float64)
    for softmax in softmaxes:
        entering = _logits(attention, path, softmax.inputs[0])
        before = _before_masks(path, softmax)
        if before is not None:
            entering = torch.where(entering > HIDDEN, entering, _logits(attention, path, before))
        logits = torch.where(entering > HIDDEN, entering, logits)
    logits = logits.mT if transposed else logits
    return None if logits[expected].isnan().any() else logits.masked_fill(~expected, -torch.inf)


def _first_softmaxes(path: SoftmaxPath) -> list[Operation]:
    """Return the softmaxes that get scores and not weights; [] if softmax is written out in parts."""
    softmaxes = {one.number for one in path.softmaxes}
    firsts = [one for one in path.softmaxes if not path.trace.ancestors(one.inputs) & softmaxes]
    return firsts if path.named_softmaxes or len(firsts) == 1 else []


def _logits(attention: Attention, path: SoftmaxPath, value: Value) -> Tensor:
    labels = path.scores.labels[value.number].flatten().tolist()
    return by_query_and_key(attention, labels, value.tensor.flatten().double().tolist())


def _before_masks(path: SoftmaxPath, softmax: Operation) -> Value | None:
    """Return the scores that the first mask before a softmax gets; None if more than masks comes between."""
    after = path.trace.ancestors(softmax.inputs)
    steps = [one for one in path.operations if one.number in after]
    masks = [one for one in path.hiding if one in steps]
    if not masks or any(one.name in ARITHMETIC and one.number > masks[0].number for one in steps if one not in masks):
        return None
    return next((value for value in masks[0].inputs if path.scores.reaches(value)), None)
