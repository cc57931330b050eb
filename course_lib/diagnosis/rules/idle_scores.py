"""Scores must have an effect: where a mask hides every key of every row, softmax weighs them all alike."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.finding_pictures import picture_of_weights
from course_lib.diagnosis.locate import locate_negation
from course_lib.diagnosis.measure import NO_WEIGHT, Attention, SoftmaxPath, noise_of
from course_lib.diagnosis.registry import rule
from course_lib.tracing import Operation, replay


@rule(order=249)
def check_effect_of_scores(attention: Attention, path: SoftmaxPath) -> Iterator[Finding]:
    """Whether the scores have an effect on the weights."""
    hides = hides_everything(attention, path)
    if hides is not None:
        evidence = (
            f"every key is hidden from every query: after `{hides.name}` the scores have no effect, and softmax gives "
            "the keys of a row the same weight"
        )
        own = hides in path.hiding[:1] or attention.options.offered  # an offered mask is right
        where = locate_negation(path) if own else hides.where
        yield Finding.named("mask-inverted", evidence, where, partial(picture_of_weights, attention))


def hides_everything(attention: Attention, path: SoftmaxPath) -> Operation | None:
    """Return the operation after which no score has an effect, or None if the weights follow the scores."""
    weights = attention.weights
    seen = weights.abs() > NO_WEIGHT
    rows = seen.sum(-1) > 1  # a row with one visible key has the weight 1 whatever its score is
    least = weights.masked_fill(~seen, torch.inf).amin(-1)
    if not path.named_softmaxes or not rows.any() or (weights.amax(-1) - least)[rows].max() > 1e-9:
        return None
    products = {product.operation.number for product in attention.structure.score_products}
    noisy = replay(path.trace, after=dict.fromkeys(products, _with_noise))
    moved = {value.number for value in path.trace.values if not torch.equal(noisy[value.number], value.tensor)}
    stopped = [one for one in path.operations if one.outputs[0].number not in moved and _reads(one, moved)]
    return stopped[-1] if stopped and not _reads(path.named_softmaxes[-1], moved) else None


def _reads(operation: Operation, values: set[int]) -> bool:
    return any(value.number in values for value in operation.inputs)


def _with_noise(scores: Tensor) -> Tensor:
    return scores + noise_of(scores.shape, seed=17).to(scores.dtype)
