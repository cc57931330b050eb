"""The paths of a model that must agree with its plain pass, each of which is one function."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .compare import ROUGH, SAME, UNTOUCHED, Place, difference, first_difference, typical_difference
from .model import CACHES, KEY_MASKS, MASKS, POSITIONS, WEIGHTS, CannotRun, Model, cache_in, first_output
from .outcome import Outcome

CUT = 3  # tokens of the first chunk, or of the padding
FUTURE = "a change of the last token changes the outputs of earlier tokens, by up to {:.2g} standard deviations"


@dataclass(frozen=True)
class Path:
    """A way of running a model.

    Attributes:
        name: as in the table of the report.
        about: what is done, for a reader.
        check: model -> outcomes; raises CannotRun if the model does not offer it.
    """

    name: str
    about: str
    check: Callable[[Model], Iterator[Outcome]]


PATHS: list[Path] = []


def path(name: str) -> Callable[[Callable[[Model], Iterator[Outcome]]], Callable[[Model], Iterator[Outcome]]]:
    """Register a function as the check of a path; its docstring says what is done."""

    def register(check: Callable[[Model], Iterator[Outcome]]) -> Callable[[Model], Iterator[Outcome]]:
        PATHS.append(Path(name, (check.__doc__ or "").splitlines()[0], check))
        return check

    return register


@path("one pass")
def one_pass(model: Model) -> Iterator[Outcome]:
    """Run it once; no output may depend on later tokens or on other samples, and a second run is equal."""
    before = model.plain
    again = difference(before, model.output(model.x))
    if again > UNTOUCHED:
        yield Outcome("one pass", "wrong", f"two runs in evaluation differ by {again:.2g}", "dropout-at-eval")
        return
    yield from _future(model, "one pass", model.module, {}, "no-causal-mask")
    moved = model.output(model.changed(model.x, (slice(1, None),)))
    apart = difference(before[:1], moved[:1])
    if apart > UNTOUCHED:
        yield Outcome("one pass", "wrong", f"a change of sample 1 changes the output of sample 0 by {apart:.2g}",
                      "batch-mixed", apart=apart)  # fmt: skip


@path("formula")
def written_out(model: Model) -> Iterator[Outcome]:
    """Run the formula written out (eager)."""
    with model.fused(False) as module:
        yield from _compare(model, "formula", module, {})


@path("fused")
def fused(model: Model) -> Iterator[Outcome]:
    """Run the fused kernel (sdpa)."""
    with model.fused(True) as module:
        yield from _compare(model, "fused", module, {})


@path("weights returned")
def weights_returned(model: Model) -> Iterator[Outcome]:
    """Ask for the attention weights as well."""
    name = model.offers(*WEIGHTS)
    if name is None:
        raise CannotRun("it does not return weights")
    yield from _compare(model, "weights returned", model.module, {name: True}, "mask-lost-on-option")


@path("mask of ones")
def mask_that_hides_nothing(model: Model) -> Iterator[Outcome]:
    """Give a mask that hides nothing."""
    name, ways = _masks(model, torch.ones(model.x.shape[:2], dtype=torch.bool))
    best: list[Outcome] = []
    for way in ways:
        outcomes = list(_compare(model, "mask of ones", model.module, {name: way}, "mask-lost-on-option"))
        if all(one.status == "agrees" for one in outcomes):
            yield from outcomes
            return
        best = best or [one for one in outcomes if one.status == "wrong"]
    if len(ways) > 1:
        raise CannotRun(f"no usual form of `{name}` hides nothing")
    yield from best


@path("padded right")
def padded_right(model: Model) -> Iterator[Outcome]:
    """Add tokens on the right that the mask hides; the outputs of the others stay."""
    yield from _padded(model, "padded right", left=False)


@path("padded left")
def padded_left(model: Model) -> Iterator[Outcome]:
    """Add tokens on the left that the mask hides; what they hold does not matter."""
    yield from _padded(model, "padded left", left=True)


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
    name, ways = _masks(model, torch.ones(model.x.shape[:2], dtype=torch.bool))
    if not model.is_pretrained:
        raise CannotRun("its mask with a cache has no usual form")
    padded, keep = _with_padding(model, left=True)

    def outputs(x: Tensor) -> Tensor:
        first = model.result(x[:, :-1], **{name: keep[:, :-1].long()}, use_cache=True)
        cache = cache_in(first)
        if cache is None:
            raise CannotRun("it returns no cache")
        return model.output(x[:, -1:], **{name: keep.long()}, past_key_values=cache, use_cache=True)

    del ways
    apart = difference(outputs(padded), outputs(model.changed(padded, (slice(None), slice(0, CUT)))))
    if apart > UNTOUCHED:
        said = f"what the hidden tokens hold changes the output of the next token by {apart:.2g}"
        yield Outcome("padded, cached", "wrong", said, "mask-skipped-when-cached", apart=apart)
    else:
        yield Outcome("padded, cached", "agrees", "what the hidden tokens hold does not matter", apart=apart)


@path("train, no dropout")
def train_without_dropout(model: Model) -> Iterator[Outcome]:
    """Run in training mode with every dropout at 0."""
    module = model.copy()
    for one in module.modules():
        for name, value in vars(one).items():
            if isinstance(value, float) and ("drop" in name or (isinstance(one, nn.Dropout) and name == "p")):
                setattr(one, name, 0.0)
    module.train()
    apart = difference(model.plain, model.output(model.x, module=module))
    if apart < SAME:
        yield Outcome("train, no dropout", "agrees", "it equals the run in evaluation", apart=apart)
    else:
        # Routers of experts draw noise in training, and batch norms use the batch: no mistake of attention.
        yield Outcome("train, no dropout", "remark", f"it differs from the run in evaluation by {apart:.2g}", apart=apart)


@path("one sample")
def one_sample(model: Model) -> Iterator[Outcome]:
    """Run each sample alone."""
    alone = torch.cat([model.output(model.x[index : index + 1]) for index in range(len(model.x))])
    apart = difference(model.plain, alone)
    yield _judged("one sample", apart, "fixed-batch")


@path("bfloat16")
def bfloat16(model: Model) -> Iterator[Outcome]:
    """Run it in bfloat16."""
    module = model.copy().to(torch.bfloat16)
    x = model.x if model.takes_ids else model.x.to(torch.bfloat16)
    output = model.output(x, module=module)
    apart = typical_difference(model.plain, output)
    if not output.isfinite().all() and model.plain.isfinite().all():
        yield Outcome("bfloat16", "wrong", "its output is not finite", "overflow-half", apart=apart)
    elif apart > ROUGH:
        yield Outcome("bfloat16", "remark", f"a typical token differs by {apart:.2g}", apart=apart)
    else:
        yield Outcome("bfloat16", "agrees", f"a typical token differs by {apart:.1g}", apart=apart)


def _judged(name: str, apart: float, mistake: str | None, place: Place | None = None) -> Outcome:
    if apart > SAME:
        said = f"it differs from the plain pass by up to {apart:.2g} standard deviations"
        return Outcome(name, "wrong", said, mistake, place, apart)
    return Outcome(name, "agrees", f"it equals the plain pass to {apart:.0e}", apart=apart)


def _compare(
    model: Model, name: str, module: nn.Module, options: dict[str, Any], mistake: str = "paths-differ"
) -> Iterator[Outcome]:
    """Yield whether a path agrees with the plain pass, and whether it sees the future."""
    apart = difference(model.plain, model.output(model.x, module=module, **options))
    leaks = list(_future(model, name, module, options, mistake))
    if any(one.status == "wrong" for one in leaks):
        yield from leaks
        return
    place = None
    if apart > SAME and module is model.module:
        place = first_difference(
            module, lambda: model.result(model.x), lambda: model.result(model.x, **options)
        )
    yield _judged(name, apart, mistake, place)


def _future(model: Model, name: str, module: nn.Module, options: dict[str, Any], mistake: str) -> Iterator[Outcome]:
    """Yield whether the outputs of earlier tokens depend on the last token."""
    if not model.causal or (name != "one pass" and model.sees_the_future > UNTOUCHED):
        return  # of the plain pass it has been said
    other = model.with_other_last()
    before, after = (model.output(x, module=module, **options)[:, :-1] for x in (model.x, other))
    apart = difference(before, after)
    if apart > UNTOUCHED:
        place = first_difference(
            module,
            lambda: model.result(model.x, module=module, **options),
            lambda: model.result(other, module=module, **options),
            slice(None, -1),
        )
        yield Outcome(name, "wrong", FUTURE.format(apart), mistake, place, apart)
    elif name == "one pass":
        yield Outcome(name, "agrees", "no output depends on a later token")


def _cached(model: Model, name: str, chunks: list[slice]) -> Iterator[Outcome]:
    outputs = _cached_outputs(model, chunks)
    whole = model.plain
    apart = difference(whole, outputs)
    said = None
    if apart > SAME:
        each = (whole.double() - outputs.double()).abs().flatten(2).amax((0, 2))
        first = int((each > SAME * float(whole.double().std())).nonzero()[0])
        said = f"the output of token {first} is the first that differs from the plain pass, by up to {apart:.2g}"
        yield Outcome(name, "wrong", said, "paths-differ", apart=apart)
    else:
        yield _judged(name, apart, "paths-differ")


def _cached_outputs(model: Model, chunks: list[slice]) -> Tensor:
    name = model.offers(*CACHES)
    if name is None:
        raise CannotRun("it takes no cache")
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
                raise CannotRun("it returns no cache")
    return torch.cat(outputs, dim=1)


def _empty_cache(model: Model) -> Any:
    if model.make_cache is None:
        return None
    try:
        return model.make_cache(model.x)
    except Exception as error:
        raise CannotRun(f"make_cache raised {type(error).__name__}: {error}") from error


def _with_padding(model: Model, *, left: bool) -> tuple[Tensor, Tensor]:
    """Return x with tokens more on one side, and which tokens are real, bool (batch, token)."""
    padding = model.changed(model.x[:, :CUT], (slice(None),))
    real, hidden = torch.ones(model.x.shape[:2], dtype=torch.bool), torch.zeros(padding.shape[:2], dtype=torch.bool)
    parts = ((padding, hidden), (model.x, real)) if left else ((model.x, real), (padding, hidden))
    return torch.cat([one for one, _ in parts], dim=1), torch.cat([keep for _, keep in parts], dim=1)


def _masks(model: Model, keep: Tensor) -> tuple[str, list[Tensor]]:
    """Return the name of the argument for a mask, and the forms that it may have; `keep` is (batch, token), bool.

    Raises:
        CannotRun: it takes no mask.
    """
    name = model.offers(*MASKS, *KEY_MASKS)
    if name is None:
        raise CannotRun("it takes no mask")
    if model.is_pretrained:
        return name, [keep.long()]
    pairs = keep[:, None, None, :].expand(len(keep), 1, keep.shape[1], keep.shape[1])
    forms = [pairs, ~pairs, torch.zeros(pairs.shape).masked_fill(~pairs, -torch.inf).to(_dtype(model)), keep, ~keep]
    if model.causal:
        causal = pairs & torch.ones(pairs.shape[-2:], dtype=torch.bool).tril()
        forms += [causal, ~causal]
    return name, forms


def _dtype(model: Model) -> torch.dtype:
    return next((one.dtype for one in model.module.parameters()), torch.float32)


def _padded(model: Model, name: str, *, left: bool) -> Iterator[Outcome]:
    padded, keep = _with_padding(model, left=left)
    hidden = (slice(None), slice(0, CUT) if left else slice(-CUT, None))
    other = model.changed(padded, hidden)
    argument, forms = _masks(model, keep)
    failure: CannotRun | None = None
    apart = torch.inf
    for form in forms:
        options: dict[str, Any] = {argument: form}
        if left and POSITIONS in model.parameters:
            options[POSITIONS] = (keep.long().cumsum(1) - 1).clamp(min=0)
        try:
            before, after = (model.output(x, **options)[keep] for x in (padded, other))
        except CannotRun as error:
            failure = error
            continue
        apart = min(apart, difference(before[None], after[None]))
        if apart <= UNTOUCHED:
            plain = difference(model.plain.flatten(0, 1)[None], before[None])
            if plain <= SAME:
                yield Outcome(name, "agrees", "the padding does not matter", apart=plain)
            else:
                said = f"what the padding holds does not matter, but the outputs differ by {plain:.2g} without it"
                yield Outcome(name, "remark", said, apart=plain)
            return
    if failure is not None and apart == torch.inf:
        raise failure
    if len(forms) > 1:
        raise CannotRun(f"no usual form of `{argument}` hides the padding")
    said = f"what the hidden tokens hold changes the outputs of the others by up to {apart:.2g}"
    yield Outcome(name, "wrong", said, "mask-lost-on-option", apart=apart)
