"""Paths that give the tokens in parts and keep keys and values in a cache."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from course_lib.tracing import is_refused

from .compare import SAME, UNTOUCHED, difference
from .masks import mask_forms
from .model import CUT, CannotRun, Model, NotOffered
from .path import Outcome, judged, path


@path("in chunks")
def in_chunks(model: Model) -> Iterator[Outcome]:
    """Give the first tokens and then the others at once, with the cache."""
    try:
        yield from _cached(model, "in chunks", [slice(0, CUT), slice(CUT, None)])
    except NotOffered:
        raise
    except CannotRun as error:
        refused = error.__cause__ is not None and is_refused(error.__cause__)
        if refused and any(outcome.status == "agrees" for outcome in token_by_token.check(model)):
            raise NotOffered(f"it takes one token at a time with its cache ({error})") from error
        raise


@path("token by token")
def token_by_token(model: Model) -> Iterator[Outcome]:
    """Give the first tokens and then one at a time, with the cache."""
    steps = [slice(index, index + 1) for index in range(CUT, model.x.shape[1])]
    yield from _cached(model, "token by token", [slice(0, CUT), *steps])


@path("padded, cached")
def padded_and_cached(model: Model) -> Iterator[Outcome]:
    """Hide the first tokens and decode with the cache; what they hold does not matter."""
    padded, keep = model.x, torch.ones(model.x.shape[:2], dtype=torch.bool)  # as long as x, for caches of fixed size
    keep[:, :CUT] = False
    other = model.changed(padded, (slice(None), slice(0, CUT)))
    name, forms = mask_forms(model, keep)
    last = padded.shape[1] - 1
    chunks = [slice(0, last), slice(last, last + 1)]

    def outputs(x: Tensor, index: int) -> Tensor:
        def mask(chunk: slice) -> dict[str, Any]:
            form = mask_forms(model, keep[:, : chunk.stop])[1][index]
            return {name: form if form.dim() == 2 else form[..., chunk, :]}

        return outputs_in_parts(model, x, chunks, mask)[:, last:]

    index = _form_that_hides(model, name, forms, padded, other, keep)
    deviation = difference(outputs(padded, index), outputs(other, index))
    if deviation > UNTOUCHED:
        detail = f"what the hidden tokens hold changes the output of the next token by {deviation:.2g}"
        yield Outcome("padded, cached", "wrong", detail, "mask-skipped-when-cached", deviation=deviation)
    else:
        yield Outcome("padded, cached", "agrees", "what the hidden tokens hold does not matter", deviation=deviation)


def _form_that_hides(model: Model, name: str, forms: list[Tensor], padded: Tensor, other: Tensor, keep: Tensor) -> int:
    """Return the index of the mask form that hides the padding in one pass; transformers models take only one.

    Raises:
        CannotRun: none does.
    """
    for index, form in enumerate(forms if len(forms) > 1 else ()):
        options: dict[str, Any] = {name: form}
        with suppress(CannotRun):
            before, after = (model.output(x, **options)[keep][None] for x in (padded, other))
            if difference(before, after) <= UNTOUCHED:
                return index
    if len(forms) > 1:
        raise CannotRun(f"no usual form of `{name}` hides the padding")
    return 0


def _cached(model: Model, name: str, chunks: list[slice]) -> Iterator[Outcome]:
    outputs = outputs_in_parts(model, model.x, chunks)
    whole = model.plain_output
    deviation = difference(whole, outputs)
    if deviation > SAME:
        each = (whole.double() - outputs.double()).abs().flatten(2).amax((0, 2))
        first = int((each > SAME * float(whole.double().std())).nonzero()[0])
        detail = f"the output of token {first} is the first that differs from the plain pass, by up to {deviation:.2g}"
        yield Outcome(name, "wrong", detail, "paths-differ", deviation=deviation)
    else:
        yield judged(name, deviation, "paths-differ")


def outputs_in_parts(
    model: Model, x: Tensor, chunks: list[slice], options: Callable[[slice], dict[str, Any]] = lambda chunk: {}
) -> Tensor:
    """Return the outputs of x, given in chunks, each with further options, and joined along the tokens.

    Raises:
        CannotRun: the model keeps nothing from one chunk to the next, or its cache must be made.
    """
    slices = [slice(*chunk.indices(x.shape[1])[:2]) for chunk in chunks]
    decoding = model.decoding
    results = decoding.results(model.begin(), x, slices, options)  # a copy, in which it may keep its cache
    return torch.cat([result.output for result in results], dim=1)
