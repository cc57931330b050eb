"""Explain why some tokens are visible that should be hidden."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from course_lib.calling import CACHE
from course_lib.diagnosis.finding import Finding, Kind
from course_lib.diagnosis.finding_pictures import picture_of_weights
from course_lib.diagnosis.locate import (
    locate_argument,
    locate_discarded,
    locate_made_mask,
    locate_mask_buffer,
    locate_skipped_mask,
    locate_unused_triangle,
    names_in,
)
from course_lib.diagnosis.measure import MASKS, NO_WEIGHT, Attention, Run, SoftmaxPath, Visibility, find_leak
from course_lib.diagnosis.registry import rule
from course_lib.tracing import UNLABELLED, Operation, SourceLine

from .idle_scores import hides_everything
from .mask_patterns import describe_leak, name_of_fill, wrong_pattern


@rule()
def check_offered_mask(run: Run) -> Iterator[str]:
    """Whether the code masks only when it is asked to."""
    if run.options.offered:
        yield f"it is unmasked unless the caller gives `{run.options.offered}`, with which it was examined"


@rule()
def check_leak(visibility: Visibility) -> Iterator[Finding]:
    """Tokens that are visible by mistake."""
    if not visibility.leaked.any() or visibility.missing.any() or wrong_pattern(visibility) is not None:
        return
    path, attention, leak = visibility.path, visibility.attention, describe_leak(visibility)
    if hides_everything(attention, path) is not None:
        return  # found by its own rule
    masking, late = path.masking, path.masking_after_softmax
    fill = _common_score(attention, visibility.leaked)
    discarded, broadcast = path.scores.first_unused((*MASKS, "add", "sub", "mul", "zero_")), _mask_of_one_element(path)
    zeroed = None if fill is not None else _multiplied_by_zero(visibility)
    if fill is not None and masking:
        found = name_of_fill(fill), f"all hidden scores count as {fill:.4g}; {leak}", masking[0].where
    elif zeroed is not None:
        found = "mask-with-zero", f"hidden scores are multiplied by 0; {leak}", zeroed.where
    elif discarded is not None:
        evidence = f"the result of `{discarded.name.rstrip('_')}` is never used, and {leak}"
        found = "mask-discarded", evidence, locate_discarded(discarded) or discarded.where
    elif late:
        found = "mask-after-softmax", leak, late[0].where
    elif broadcast is not None:
        shape, num_tokens = tuple(broadcast.inputs[1].tensor.shape), visibility.leaked.shape[-1]
        evidence = f"the mask has the shape {shape} for {num_tokens} tokens, is broadcast and hides nothing: {leak}"
        where = locate_mask_buffer(broadcast, path.scores.run.subject) or broadcast.where
        found = "fixed-length", evidence, where
    else:
        all_seen = (attention.weights.abs()[attention.expected.any(-1)] > NO_WEIGHT).all()
        who = "every token sees every other one" if all_seen else "tokens are seen that should be hidden"
        if not attention.options.causal or not visibility.leaked.triu(1).any():
            hiding = "window" if attention.options.keep is None else "keep"
            evidence, draw = f"{who}: {leak}", partial(picture_of_weights, attention, path)
            yield Finding.unnamed(f"tokens are seen that `{hiding}` hides", evidence, _locate_idle_mask(path), draw)
            return
        where = _locate_idle_mask(path)
        of_cache = attention.rows.is_cached and where is not None and _tests_cache(where)
        mistake = "mask-skipped-when-cached" if of_cache else "no-causal-mask"
        found = mistake, f"{who}: {leak}", where
    yield Finding.named(*found, partial(picture_of_weights, attention, path))


@rule()
def check_behind(visibility: Visibility) -> Iterator[Finding]:
    """Later tokens that come in outside of attention."""
    attention, options = visibility.attention, visibility.attention.options
    if not options.causal or options.keep is not None or options.num_context:  # rows of padding may be anything
        return
    # A number that keeps a sum from being 0 gives hidden tokens a weight, too small to be a leak, that reaches outputs.
    hidden = attention.weights[~attention.expected]
    if visibility.leaked.any() or visibility.missing.any() or (hidden.nan_to_num() != 0).any():
        return
    leak = find_leak(attention.dependence, masked=True)
    if leak is not None and leak.other > leak.token:
        yield Finding.unnamed(Kind.LEAK_BEHIND if leak.is_behind else Kind.LEAK_OUTSIDE, leak.evidence, leak.where)


def _tests_cache(line: SourceLine) -> bool:
    """Return whether a line is an `if` that asks for a cache."""
    return line.text.startswith(("if ", "elif ")) and any(map(CACHE.fullmatch, names_in(line.text)))


def _common_score(attention: Attention, hidden: Tensor) -> float | None:
    """Return the number that replaced all hidden scores before softmax, or None if there is no such number."""
    if attention.fitted_scale is None:
        return None
    fills = []
    for sample, head, query in hidden.any(-1).nonzero().tolist():
        weights, here = attention.weights[sample, head, query], hidden[sample, head, query]
        if (weights[here] <= 0).any() or float(weights[here].max() - weights[here].min()) > 1e-9:
            return None
        anchor = attention.expected[sample, head, query].nonzero()[0, 0]
        score = attention.fitted_scale[head] * attention.scores[sample, head, query, anchor]
        fills.append(float(torch.log(weights[here][0] / weights[anchor]) + score))
    same = fills and max(fills) - min(fills) <= 1e-5 * (1 + abs(fills[0]))
    return fills[0] if same else None


def _multiplied_by_zero(visibility: Visibility) -> Operation | None:
    """Return the operation before softmax that multiplies the scores of all leaked pairs by 0, and others by 1."""
    path, leaked = visibility.path, visibility.leaked.flatten(0, 1).any(0)
    for operation in path.operations:
        late = path.softmaxes and operation.number > path.softmaxes[0].number
        fixed = [] if late else [one.tensor for one in operation.inputs if not path.dependence.on_input(one)]
        masks = [one for one in fixed if one.dim() > 1 and one.unique().tolist() in ([0, 1], [False, True])]
        if operation.name.rstrip("_") == "mul" and masks:
            labels = path.scores.labels[operation.outputs[0].number]
            hidden = labels[(masks[0] == 0).expand(labels.shape) & (labels != UNLABELLED)]
            sides = path.scores.left.tokens[hidden], path.scores.right.tokens[hidden]
            queries, keys = sides if path.scores.most_keys_are_right else sides[::-1]
            if (leaked <= torch.zeros_like(leaked).index_put((queries, keys), torch.tensor(True))).all():
                return operation
    return None


def _mask_of_one_element(path: SoftmaxPath) -> Operation | None:
    """Return the operation that masks all pairs with one element."""
    for operation in path.operations:
        mask = operation.inputs[1] if len(operation.inputs) > 1 else None
        if mask is not None and mask.tensor.shape[-2:] == (1, 1) and not path.scores.dependence.on_input(mask):
            return operation
    return None


def _locate_idle_mask(path: SoftmaxPath) -> SourceLine | None:
    """Find where a mask that hides nothing was made, or the code decides against one, or else the softmax without."""
    for operation in path.operations:
        made = locate_made_mask(path, operation)
        if operation.name in MASKS or made is not None:
            return made or locate_mask_buffer(operation, path.run.subject) or operation.where
    if not path.softmaxes:
        return None
    softmax = path.softmaxes[0]
    flag = locate_argument(softmax, "is_causal", path.run.subject)
    unused = [one for one in path.trace.operations if one.number not in path.run.live]
    made = flag or locate_unused_triangle(softmax, path.trace, unused)
    return made or locate_skipped_mask(softmax, path.trace, path.run.subject) or softmax.where
