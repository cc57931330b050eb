"""Paths with a mask, in each form that the model may accept."""

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .compare import SAME, UNTOUCHED, difference
from .model import CUT, CannotRun, Model, NotOffered
from .path import Outcome, compare, path

POSITIONS = re.compile(r"(decoder_)?position_ids")


@path("mask of ones")
def mask_that_hides_nothing(model: Model) -> Iterator[Outcome]:
    """Give a mask that hides nothing."""
    name, ways = mask_forms(model, torch.ones(model.x.shape[:2], dtype=torch.bool))
    failures: list[CannotRun] = []
    for way in ways:
        try:
            outcomes = list(compare(model, "mask of ones", model.module, {name: way}, "mask-lost-on-option"))
        except CannotRun as error:
            failures.append(error)
            continue
        if len(ways) == 1 or all(outcome.status == "agrees" for outcome in outcomes):
            yield from outcomes
            return
    raise failures[0] if len(failures) == len(ways) else CannotRun(f"no usual form of `{name}` hides nothing")


@path("padded right")
def padded_right(model: Model) -> Iterator[Outcome]:
    """Add tokens on the right that the mask hides; the outputs of the others stay."""
    yield from _padded(model, "padded right", left=False)


@path("padded left")
def padded_left(model: Model) -> Iterator[Outcome]:
    """Add tokens on the left that the mask hides; what they hold does not matter."""
    yield from _padded(model, "padded left", left=True)


def _padded(model: Model, name: str, *, left: bool) -> Iterator[Outcome]:
    padded, keep = with_padding(model, left=left)
    hidden = (slice(None), slice(0, CUT) if left else slice(-CUT, None))
    other = model.changed(padded, hidden)
    argument, forms = mask_forms(model, keep)
    failure: CannotRun | None = None
    deviation = plain = torch.inf
    is_read = False
    for form in forms:
        options: dict[str, Any] = {argument: form}
        if left and (positions := model.argument_like(POSITIONS)):
            options[positions] = (keep.long().cumsum(1) - 1).clamp(min=0)
        try:
            before, after = (model.output(x, **options)[keep] for x in (padded, other))
        except CannotRun as error:
            failure = error
            continue
        is_read = is_read or difference(_unmasked(model, padded, keep), before[None]) > UNTOUCHED
        changed = difference(before[None], after[None])
        if changed <= UNTOUCHED:
            plain = min(plain, difference(model.plain_output.flatten(0, 1)[None], before[None]))
        deviation = min(deviation, changed)
        if plain <= SAME:
            yield Outcome(name, "agrees", "the padding does not matter", deviation=plain)
            return
    if failure is not None and deviation == torch.inf:
        raise failure
    if deviation <= UNTOUCHED:
        detail = f"what the padding holds does not matter, but the outputs differ by {plain:.2g} without it"
        # Tokens on the left move the positions of the others. Those on the right are no cause of a difference, except
        # in large models whose indexers choose among equal scores, where more tokens may move the choice.
        is_meant = left or model.is_pretrained
        mistake = "" if is_meant else "paths-differ"
        yield Outcome(name, "remark" if is_meant else "wrong", detail, mistake, deviation=plain)
        return
    if not is_read:
        detail = f"`{argument}` changes no output, in whichever form it is given"
        yield Outcome(name, "wrong", detail, "mask-discarded", deviation=deviation)
        return
    if len(forms) > 1:
        raise CannotRun(f"no usual form of `{argument}` hides the padding")
    detail = f"what the hidden tokens hold changes the outputs of the others by up to {deviation:.2g}"
    yield Outcome(name, "wrong", detail, "paths-differ", deviation=deviation)


def _unmasked(model: Model, padded: Tensor, keep: Tensor) -> Tensor:
    """Return the outputs (1, token, ...) of the real tokens without a mask; empty if the model does not run."""
    try:
        return model.output(padded)[keep][None]
    except CannotRun:
        return torch.empty(0)


def with_padding(model: Model, *, left: bool) -> tuple[Tensor, Tensor]:
    """Return x with padding on one side, and a bool mask of the real tokens, (batch, token)."""
    padding = model.changed(model.x[:, :CUT], (slice(None),))
    real, hidden = torch.ones(model.x.shape[:2], dtype=torch.bool), torch.zeros(padding.shape[:2], dtype=torch.bool)
    parts = ((padding, hidden), (model.x, real)) if left else ((model.x, real), (padding, hidden))
    return torch.cat([tokens for tokens, _ in parts], dim=1), torch.cat([keep for _, keep in parts], dim=1)


def mask_forms(model: Model, keep: Tensor) -> tuple[str, list[Tensor]]:
    """Return the name of the argument for a mask, and the forms that it may have; `keep` is (batch, token), bool.

    Raises:
        NotOffered: it takes no mask.
    """
    name = next(iter(model.masks[0]), None)
    if name is None:
        raise NotOffered("it takes no mask")
    if model.is_pretrained:
        return name, [keep.long()]
    pairs = keep[:, None, None, :].expand(len(keep), 1, keep.shape[1], keep.shape[1])
    forms = [*forms_of(model, pairs), keep, ~keep]
    if model.causal:
        causal = pairs & torch.ones(pairs.shape[-2:], dtype=torch.bool).tril()
        forms += forms_of(model, causal)  # for code in which a mask takes the place of its own
    return name, forms


def forms_of(model: Model, pairs: Tensor) -> list[Tensor]:
    """Return a mask as True = may attend, as True = must not attend, and as numbers that are added to scores."""
    dtype = next((parameter.dtype for parameter in model.module.parameters()), torch.float32)
    return [pairs, ~pairs, torch.zeros(pairs.shape, dtype=dtype).masked_fill(~pairs, -torch.inf)]
