"""Paths, and how a run along a path is judged."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from .compare import SAME, UNTOUCHED, Submodule, difference, first_difference
from .model import Model
from .outcome import Outcome

FUTURE = "a change of the last token changes the outputs of earlier tokens, by up to {:.2g} standard deviations"
Check = Callable[[Model], Iterator[Outcome]]


@dataclass(frozen=True)
class Path:
    """A way of running a model.

    Attributes:
        name: as in the table of the report.
        check: model -> outcomes; raises CannotRun if the model does not offer it.
    """

    name: str
    check: Check


def path(name: str) -> Callable[[Check], Path]:
    """Turn a function into a path, as in `@path("fused")`; its docstring says what is done."""
    return lambda check: Path(name, check)


def judged(name: str, deviation: float, mistake: str, submodule: Submodule | None = None) -> Outcome:
    """Return whether a path agrees with the plain pass, given its deviation in standard deviations."""
    if deviation > SAME:
        detail = f"it differs from the plain pass by up to {deviation:.2g} standard deviations"
        return Outcome(name, "wrong", detail, mistake, submodule, deviation)
    return Outcome(name, "agrees", f"it equals the plain pass to {deviation:.0e}", deviation=deviation)


def compare(
    model: Model, name: str, module: nn.Module, options: dict[str, Any], mistake: str = "paths-differ"
) -> Iterator[Outcome]:
    """Yield whether a path agrees with the plain pass, and whether it sees the future."""
    deviation = difference(model.plain_output, model.output(model.x, module=module, **options))
    leaks = list(future(model, name, module, options, mistake))
    if any(outcome.status == "wrong" for outcome in leaks):
        yield from leaks
        return
    submodule = None
    if deviation > SAME and module is model.module:
        submodule = first_difference(module, lambda: model.result(model.x), lambda: model.result(model.x, **options))
    yield judged(name, deviation, mistake, submodule)


def future(model: Model, name: str, module: nn.Module, options: dict[str, Any], mistake: str) -> Iterator[Outcome]:
    """Yield whether the outputs of earlier tokens depend on the last token."""
    if not model.causal or (name != "one pass" and model.sees_the_future > UNTOUCHED):
        return  # of the plain pass it has been said
    other = model.with_other_last()
    if name == "one pass":
        deviation = model.sees_the_future
    else:
        before, after = (model.output(x, module=module, **options)[:, :-1] for x in (model.x, other))
        deviation = difference(before, after)
    if deviation > UNTOUCHED:
        submodule = first_difference(
            module,
            lambda: model.result(model.x, module=module, **options),
            lambda: model.result(other, module=module, **options),
            slice(None, -1),
        )
        yield Outcome(name, "wrong", FUTURE.format(deviation), mistake, submodule, deviation)
    elif name == "one pass":
        yield Outcome(name, "agrees", "no output depends on a later token")
