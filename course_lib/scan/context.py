"""Paths of models that are given a context, as the decoder of an encoder-decoder is."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .caches import outputs_in_parts
from .compare import SAME, UNTOUCHED, difference
from .masks import forms_of
from .model import CUT, CannotRun, Model, NotOffered
from .path import Outcome, path


@path("context read")
def context_read(model: Model) -> Iterator[Outcome]:
    """Give another context; the output must change."""
    context = _context_of(model)
    deviation = difference(model.plain_output, model.on(model.x, model.changed(context, (slice(None),))).plain_output)
    if deviation > UNTOUCHED:
        yield Outcome("context read", "agrees", "the output depends on the context", deviation=deviation)
    else:
        yield Outcome("context read", "remark", "another context changes no output", deviation=deviation)


@path("context padded")
def context_padded(model: Model) -> Iterator[Outcome]:
    """Add tokens to the context that its mask hides; no output changes, with the cache neither."""
    context = _context_of(model)
    if context.is_floating_point() and model.is_pretrained:
        raise NotOffered("its encoder makes a token of several frames, so that padding is more than a mask")
    names = model.masks[1]
    if not names:
        raise NotOffered("it takes no mask of its context")
    padded = torch.cat([context, model.changed(context[:, :CUT], (slice(None),))], dim=1)
    keep = torch.ones(padded.shape[:2], dtype=torch.bool)
    keep[:, -CUT:] = False
    longer = model.on(model.x, padded)
    options, deviation, is_read = _best(model, longer, list(_ways(model, keep, names)))
    if not is_read:
        yield _wrong(deviation, ", with the mask as without it", "mask-discarded")
    elif deviation <= SAME:
        yield Outcome("context padded", "agrees", "the padding of the context does not matter", deviation=deviation)
        yield from _decoded(model, longer, options)
    elif model.is_pretrained:  # whose masks have one form
        yield _wrong(deviation, "", "paths-differ")
    else:
        raise CannotRun(f"no usual form of {' and '.join(f'`{name}`' for name in names)} hides the padding")


def _decoded(model: Model, longer: Model, options: dict[str, Any]) -> Iterator[Outcome]:
    parts = [slice(0, CUT), *(slice(at, at + 1) for at in range(CUT, model.x.shape[1]))]
    try:
        without = outputs_in_parts(model, model.x, parts)  # which may differ from the plain pass for another reason
        deviation = difference(without, outputs_in_parts(longer, model.x, parts, lambda part: options))
    except NotOffered:
        return
    if deviation > SAME:
        yield _wrong(deviation, " token by token", "mask-skipped-when-cached")


def _wrong(deviation: float, how: str, mistake: str) -> Outcome:
    detail = f"tokens of the context that its mask hides change the outputs by up to {deviation:.2g}{how}"
    return Outcome("context padded", "wrong", detail, mistake, deviation=deviation)


def _best(model: Model, longer: Model, ways: list[dict[str, Any]]) -> tuple[dict[str, Any], float, bool]:
    """Return the masks that hide the padding best, how far the outputs then are, and whether any mask was read.

    Raises:
        CannotRun: it takes the masks in no usual form.
    """
    attempts: list[tuple[float, dict[str, Any]]] = []
    failures: list[CannotRun] = []
    is_read = False
    for options in ways:
        try:
            output = longer.output(model.x, **options)
        except CannotRun as error:
            failures.append(error)
            continue
        attempts.append((difference(model.plain_output, output), options))
        is_read = is_read or difference(longer.plain_output, output) > UNTOUCHED
    if not attempts:
        raise failures[0]
    deviation, options = min(attempts, key=lambda pair: pair[0])
    return options, deviation, is_read


def _ways(model: Model, keep: Tensor, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield options that hide the padding of the context: all masks in the same form, or one alone."""
    if model.is_pretrained:
        yield {names[0]: keep.long()}
        return
    of_keys = [name for name in names if "pad" in name] or names
    for chosen in [of_keys] if len(of_keys) == 1 else [of_keys, *([name] for name in of_keys)]:
        for form in (keep, ~keep, *forms_of(model, keep[:, None, None, :]), keep.long()):
            yield dict.fromkeys(chosen, form)


def _context_of(model: Model) -> Tensor:
    if model.context is None:
        raise NotOffered("it was given no context")
    return model.context
