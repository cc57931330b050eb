"""Paths, how a run along a path is judged, and what comes of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

from course_lib.diagnosis import Finding

from .compare import SAME, UNTOUCHED, Submodule, difference, first_difference
from .model import Model

FUTURE = "a change of the last token changes the outputs of earlier tokens, by up to {:.2g} standard deviations"
Status = Literal["agrees", "wrong", "not run", "not examined", "remark"]


@dataclass(frozen=True)
class Outcome:
    """The result of one path of one model.

    Attributes:
        path: its name, such as "token by token".
        status: "agrees"; "wrong"; "not run", because the model does not offer the path; "not examined", because it
            raised or could not be looked into; or "remark", a difference that the model may be meant to have.
        detail: what was measured, or why nothing was, as a clause.
        mistake: id in the catalogue; "" for what has none.
        submodule: the first module whose output differs, if it is known.
        finding: what the doctor found; None for what the path itself shows.
        not_judged: whether the scale of some scores was not judged.
        deviation: the largest difference from the plain output, in its standard deviations; None if not compared.
    """

    path: str
    status: Status
    detail: str
    mistake: str = ""
    submodule: Submodule | None = None
    deviation: float | None = None
    finding: Finding | None = None
    not_judged: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        submodule = self.submodule
        return {
            "path": self.path,
            "status": self.status,
            "said": self.detail,
            "mistake": self.mistake,
            "module": submodule.module if submodule else None,
            "class": submodule.kind if submodule else None,
            "where": submodule.where if submodule else None,
            "apart": self.deviation,
        }


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
