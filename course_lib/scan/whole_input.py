"""Paths that give the model its whole input at once, also in fewer bits than the plain pass."""

import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.calling import WEIGHTS
from course_lib.diagnosis import in_dtype
from course_lib.tracing import WithoutDropout, drops_out, trace_run

from .compare import ROUGH, SAME, UNTOUCHED, difference, typical_difference
from .kernels import FlexCalls, Kernel, attribute_built_too_late
from .model import CannotRun, Model, NotOffered
from .path import Outcome, compare, future, judged, path


@path("one pass")
def one_pass(model: Model) -> Iterator[Outcome]:
    """Run it once; no output may depend on later tokens or on other samples, and a second run is equal."""
    before = model.plain_output
    if model.keeps_state > UNTOUCHED:
        detail = f"a second run with the same x and the same random numbers differs by {model.keeps_state:.2g}"
        yield Outcome("one pass", "wrong", detail, "stale-cache")
        return
    if model.is_random > UNTOUCHED:
        detail = f"two runs in evaluation differ by {model.is_random:.2g}"
        trace, _ = trace_run(model.output, model.x)
        yield Outcome("one pass", "wrong", detail, "dropout-at-eval" if drops_out(trace) else "")
        return
    yield from future(model, "one pass", model.module, {}, "no-causal-mask")
    others = (slice(1, None),)
    context = None if model.context is None else model.changed(model.context, others)
    moved = model.on(model.changed(model.x, others), context).plain_output
    deviation = difference(before[:1], moved[:1])
    if deviation > UNTOUCHED:
        yield Outcome("one pass", "wrong", f"a change of sample 1 changes the output of sample 0 by {deviation:.2g}",
                      "batch-mixed", deviation=deviation)  # fmt: skip


@path("formula")
def written_out(model: Model) -> Iterator[Outcome]:
    """Run the formula written out (eager)."""
    yield from _on(model, "formula", "eager")


@path("fused")
def fused(model: Model) -> Iterator[Outcome]:
    """Run the fused kernel (sdpa)."""
    yield from _on(model, "fused", "sdpa")


def _on(model: Model, name: str, kernel: Kernel) -> Iterator[Outcome]:
    """Compare a copy that is switched to a kernel.

    Raises:
        NotOffered: the model has no such switch, or it counts only when the model is built.
    """
    try:
        yield from compare(model, name, *model.with_kernel(kernel))
    except CannotRun as error:
        if missing := attribute_built_too_late(error.__cause__):
            raise NotOffered(f"its switch counts when it is built: `{missing}` is made for this path only") from error
        raise


@path("flex")
def flex(model: Model) -> Iterator[Outcome]:
    """Run flex_attention, without compiling it."""
    module, options = model.with_kernel("flex_attention")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which say that it is slow
        try:
            with FlexCalls() as calls:
                model.result(model.x, module=module, **options)
        except CannotRun as error:
            if "cpu" in str(error).lower():  # what it lacks there is no fault of the model
                raise NotOffered(f"it can't run flex_attention on the CPU: {error}") from error
            raise
        if not calls.count:
            raise NotOffered("its switch for flex_attention does not call it")
        yield from compare(model, "flex", module, options)


@path("weights returned")
def weights_returned(model: Model) -> Iterator[Outcome]:
    """Ask for the attention weights as well."""
    name = model.argument_like(WEIGHTS)
    if name is None:
        raise NotOffered("it does not return weights")
    yield from compare(model, "weights returned", model.module, {name: True}, "mask-lost-on-option")


@path("train, no dropout")
def train_without_dropout(model: Model) -> Iterator[Outcome]:
    """Run in training mode with every dropout at 0."""
    module = model.copy()
    for submodule in module.modules():
        for name, value in vars(submodule).items():
            if isinstance(value, float) and "drop" in name:  # such as the probability that a layer is left out
                setattr(submodule, name, 0.0)
    module.train()
    with WithoutDropout():
        deviation = difference(model.plain_output, model.output(model.x, module=module))
    if deviation < SAME:
        yield Outcome("train, no dropout", "agrees", "it equals the run in evaluation", deviation=deviation)
    else:
        # Routers of experts draw noise in training, and batch norms use the batch: no mistake of attention.
        yield Outcome(
            "train, no dropout",
            "remark",
            f"it differs from the run in evaluation by {deviation:.2g}",
            deviation=deviation,
        )


@path("one sample")
def one_sample(model: Model) -> Iterator[Outcome]:
    """Run each sample alone."""
    pairs = zip(
        model.x.split(1), [None] * len(model.x) if model.context is None else model.context.split(1), strict=True
    )
    alone = torch.cat([model.on(x, context).plain_output for x, context in pairs])
    deviation = difference(model.plain_output, alone)
    yield judged("one sample", deviation, "paths-differ")


@path("three samples")
def three_samples(model: Model) -> Iterator[Outcome]:
    """Run three samples, of which the first two are those of the plain pass."""

    def with_third(tensor: Tensor) -> Tensor:
        return torch.cat([tensor[:2], model.changed(tensor[:1], (slice(None),))])

    three = model.on(with_third(model.x), None if model.context is None else with_third(model.context))
    deviation = difference(model.plain_output[:2], three.plain_output[:2])
    yield judged("three samples", deviation, "paths-differ")


@path("float32")
def float32(model: Model) -> Iterator[Outcome]:
    """Run it in float32."""
    yield _in_fewer_bits(model, torch.float32, SAME, "paths-differ")


@path("bfloat16")
def bfloat16(model: Model) -> Iterator[Outcome]:
    """Run it in bfloat16."""
    yield _in_fewer_bits(model, torch.bfloat16, ROUGH, "overflow-half")


def _in_fewer_bits(model: Model, dtype: torch.dtype, most: float, mistake: str) -> Outcome:
    """Return whether the output is finite and how far a typical token is from the plain pass."""
    name = str(dtype).removeprefix("torch.")
    module = in_dtype(dtype, model.copy())
    output = model.output(model.x.to(dtype) if model.x.is_floating_point() else model.x, module=module)
    deviation = typical_difference(model.plain_output, output)
    if not output.isfinite().all() and model.plain_output.isfinite().all():
        return Outcome(name, "wrong", "its output is not finite", mistake, deviation=deviation)
    if deviation > most:  # routers choose other experts, and long sums round: this alone accuses nobody
        return Outcome(name, "remark", f"a typical token differs by {deviation:.2g}", deviation=deviation)
    return Outcome(name, "agrees", f"a typical token differs by {deviation:.1g}", deviation=deviation)


@path("compiled")
def compiled(model: Model) -> Iterator[Outcome]:
    """Run it as torch.compile captures it, without the code that a compiler would write (backend "aot_eager")."""
    torch.compiler.reset()
    module = model.copy()
    module.compile(backend="aot_eager")
    yield from compare(model, "compiled", module, {})
