"""Paths that give the tokens in parts and keep keys and values in a cache."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .compare import SAME, UNTOUCHED, difference
from .masked import CUT, mask_forms, with_padding
from .model import CACHES, CannotRun, Model, NotOffered, cache_in, first_output
from .outcome import Outcome
from .path import judged, path


@path("in chunks")
def in_chunks(model: Model) -> Iterator[Outcome]:
    """Give the first tokens and then the others at once, with the cache."""
    yield from _cached(model, "in chunks", [slice(0, CUT), slice(CUT, None)])


@path("token by token")
def token_by_token(model: Model) -> Iterator[Outcome]:
    """Give the first tokens and then one at a time, with the cache."""
    steps = [slice(index, index + 1) for index in range(CUT, model.x.shape[1])]
    yield from _cached(model, "token by token", [slice(0, CUT), *steps])


@path("padded, cached")
def padded_and_cached(model: Model) -> Iterator[Outcome]:
    """Pad on the left and decode with the cache; what the padding holds does not matter."""
    if not model.is_pretrained:
        raise NotOffered("its mask with a cache has no usual form")
    name, _ = mask_forms(model, torch.ones(model.x.shape[:2], dtype=torch.bool))
    padded, keep = with_padding(model, left=True)

    def outputs(x: Tensor) -> Tensor:
        options: dict[str, Any] = {name: keep[:, :-1].long(), "use_cache": True}
        first = model.result(x[:, :-1], **options)
        cache = cache_in(first)
        if cache is None:
            raise NotOffered("it returns no cache")
        options |= {name: keep.long(), "past_key_values": cache}
        return model.output(x[:, -1:], **options)

    apart = difference(outputs(padded), outputs(model.changed(padded, (slice(None), slice(0, CUT)))))
    if apart > UNTOUCHED:
        said = f"what the hidden tokens hold changes the output of the next token by {apart:.2g}"
        yield Outcome("padded, cached", "wrong", said, "mask-skipped-when-cached", apart=apart)
    else:
        yield Outcome("padded, cached", "agrees", "what the hidden tokens hold does not matter", apart=apart)


def _cached(model: Model, name: str, chunks: list[slice]) -> Iterator[Outcome]:
    outputs = _cached_outputs(model, chunks)
    whole = model.plain_output
    apart = difference(whole, outputs)
    if apart > SAME:
        each = (whole.double() - outputs.double()).abs().flatten(2).amax((0, 2))
        first = int((each > SAME * float(whole.double().std())).nonzero()[0])
        said = f"the output of token {first} is the first that differs from the plain pass, by up to {apart:.2g}"
        yield Outcome(name, "wrong", said, "paths-differ", apart=apart)
    else:
        yield judged(name, apart, "paths-differ")


def _cached_outputs(model: Model, chunks: list[slice]) -> Tensor:
    name = model.offers(*CACHES)
    if name is None:
        raise NotOffered("it takes no cache")
    cache = _empty_cache(model)
    if cache is None and "use_cache" not in model.parameters:
        raise CannotRun("its cache must be made: give make_cache")
    outputs = []
    for chunk in chunks:
        given: dict[str, Any] = {} if cache is None else {name: cache}
        if "use_cache" in model.parameters:
            given["use_cache"] = True
        x = model.x[:, chunk]
        result = model.result(x, **given)
        outputs.append(first_output(result, x))
        if model.make_cache is None:
            cache = cache_in(result)
            if cache is None:
                raise NotOffered("it returns no cache")
    return torch.cat(outputs, dim=1)


def _empty_cache(model: Model) -> Any:
    if model.make_cache is None:
        return None
    try:
        return model.make_cache(model.x)
    except Exception as error:
        raise CannotRun(f"make_cache raised {type(error).__name__}: {error}") from error
