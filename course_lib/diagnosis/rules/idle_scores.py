"""Scores must have an effect: on the weights, and through them on the output."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.finding_pictures import picture_of_weights
from course_lib.diagnosis.locate import locate_negation
from course_lib.diagnosis.measure import NO_WEIGHT, SOFTMAXES, Attention, Run, SoftmaxPath, Structure, noise_of
from course_lib.diagnosis.registry import rule
from course_lib.diagnosis.rules.outputs import locate_instead
from course_lib.tracing import Operation, replay


@rule()
def check_effect_on_weights(attention: Attention, path: SoftmaxPath) -> Iterator[Finding]:
    """Whether the scores have an effect on the weights."""
    hides = hides_everything(attention, path)
    if hides is not None:
        evidence = (
            f"every key is hidden from every query: after `{hides.name}` the scores have no effect, and softmax gives "
            "the keys of a row the same weight"
        )
        own = hides in path.hiding[:1] or attention.options.offered  # an offered mask is right
        where = locate_negation(path) if own else hides.where
        yield Finding.named("mask-inverted", evidence, where, partial(picture_of_weights, attention, path))


@rule()
def check_effect_on_output(structure: Structure) -> Iterator[Finding]:
    """Whether the scores have an effect on the output."""
    run, after = structure.run, structure.score_descendants
    softmaxes = [one for one in run.trace.operations if one.name in SOFTMAXES and one.number in after]
    if not softmaxes or not structure.dependence.combines_tokens(run.output):  # then another rule finds it
        return
    noisy = _with_other_scores(structure)
    moved = _moved(run, noisy)
    if run.output.number not in moved and softmaxes[-1].outputs[0].number in moved:
        last = [one for one in run.in_order(after) if _reads(one, moved) and one.where]
        read = last[-1].name not in SOFTMAXES  # by what replaces the weights
        where = last[-1].where if read else locate_instead(structure, last[-1])
        found = Finding.named("weights-not-applied", "the output stays the same whatever the scores are", where)
        yield replace(found, title="The weights are computed and not applied to the values.")


def hides_everything(attention: Attention, path: SoftmaxPath) -> Operation | None:
    """Return the operation after which no score has an effect, or None if the weights follow the scores."""
    weights = attention.weights
    seen = weights.abs() > NO_WEIGHT
    rows = seen.sum(-1) > 1  # a row with one visible key has the weight 1 whatever its score is
    least = weights.masked_fill(~seen, torch.inf).amin(-1)
    if not path.named_softmaxes or not rows.any() or (weights.amax(-1) - least)[rows].max() > 1e-9:
        return None
    moved = _moved(path.run, _with_other_scores(attention.structure))
    stopped = [one for one in path.operations if one.outputs[0].number not in moved and _reads(one, moved)]
    return stopped[-1] if stopped and not _reads(path.named_softmaxes[-1], moved) else None


def _with_other_scores(structure: Structure) -> list[Tensor]:
    """Return each value's tensor in a run in which the score products have other results."""
    products = {product.operation.number for product in structure.score_products}
    return replay(structure.trace, after=dict.fromkeys(products, _with_noise))


def _with_noise(scores: Tensor) -> Tensor:
    # Less noise would not move weights of 0 and 1, which large scores make.
    largest = float(scores.abs().nan_to_num(posinf=0.0).max()) if scores.numel() else 0.0
    return scores + max(1.0, largest) * noise_of(scores.shape, seed=17).to(scores.dtype)


def _moved(run: Run, noisy: list[Tensor]) -> set[int]:
    return {value.number for value in run.trace.values if not torch.equal(noisy[value.number], value.tensor)}


def _reads(operation: Operation, values: set[int]) -> bool:
    return any(value.number in values for value in operation.inputs)
