"""Paths that give the model its whole input at once."""

from collections.abc import Iterator

import torch
from torch import nn

from .compare import SAME, UNTOUCHED, difference
from .model import WEIGHTS, Model, NotOffered
from .outcome import Outcome
from .path import compare, future, judged, path


@path("one pass")
def one_pass(model: Model) -> Iterator[Outcome]:
    """Run it once; no output may depend on later tokens or on other samples, and a second run is equal."""
    before = model.plain_output
    if model.keeps_state > UNTOUCHED:
        said = f"a second run with the same x and the same random numbers differs by {model.keeps_state:.2g}"
        yield Outcome("one pass", "wrong", said, "stale-cache")
        return
    if model.is_random > UNTOUCHED:
        said = f"two runs in evaluation differ by {model.is_random:.2g}"
        yield Outcome("one pass", "wrong", said, "dropout-at-eval")
        return
    yield from future(model, "one pass", model.module, {}, "no-causal-mask")
    moved = model.output(model.changed(model.x, (slice(1, None),)))
    apart = difference(before[:1], moved[:1])
    if apart > UNTOUCHED:
        yield Outcome("one pass", "wrong", f"a change of sample 1 changes the output of sample 0 by {apart:.2g}",
                      "batch-mixed", apart=apart)  # fmt: skip


@path("formula")
def written_out(model: Model) -> Iterator[Outcome]:
    """Run the formula written out (eager)."""
    with model.fused(False) as module:
        yield from compare(model, "formula", module, {})


@path("fused")
def fused(model: Model) -> Iterator[Outcome]:
    """Run the fused kernel (sdpa)."""
    with model.fused(True) as module:
        yield from compare(model, "fused", module, {})


@path("weights returned")
def weights_returned(model: Model) -> Iterator[Outcome]:
    """Ask for the attention weights as well."""
    name = model.offers(*WEIGHTS)
    if name is None:
        raise NotOffered("it does not return weights")
    yield from compare(model, "weights returned", model.module, {name: True}, "mask-lost-on-option")


@path("train, no dropout")
def train_without_dropout(model: Model) -> Iterator[Outcome]:
    """Run in training mode with every dropout at 0."""
    module = model.copy()
    for one in module.modules():
        for name, value in vars(one).items():
            if isinstance(value, float) and ("drop" in name or (isinstance(one, nn.Dropout) and name == "p")):
                setattr(one, name, 0.0)
    module.train()
    apart = difference(model.plain_output, model.output(model.x, module=module))
    if apart < SAME:
        yield Outcome("train, no dropout", "agrees", "it equals the run in evaluation", apart=apart)
    else:
        # Routers of experts draw noise in training, and batch norms use the batch: no mistake of attention.
        yield Outcome(
            "train, no dropout", "remark", f"it differs from the run in evaluation by {apart:.2g}", apart=apart
        )


@path("one sample")
def one_sample(model: Model) -> Iterator[Outcome]:
    """Run each sample alone."""
    alone = torch.cat([model.output(model.x[index : index + 1]) for index in range(len(model.x))])
    apart = difference(model.plain_output, alone)
    yield judged("one sample", apart, "paths-differ")


@path("three samples")
def three_samples(model: Model) -> Iterator[Outcome]:
    """Run three samples, of which the first two are those of the plain pass."""
    third = model.changed(model.x[:1], (slice(None),))
    apart = difference(model.plain_output[:2], model.output(torch.cat([model.x[:2], third]))[:2])
    yield judged("three samples", apart, "paths-differ")
