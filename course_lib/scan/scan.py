"""Run a model along all of its paths and compare them with its plain pass."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .compare import UNTOUCHED
from .model import CannotRun, Model, NotOffered
from .outcome import Outcome
from .paths import ASKED, PATHS
from .report import ScanReport

# paths on which the state of recurrent layers shows
OF_THE_STATE = {"padded right", "padded left", "padded, cached", "in chunks", "token by token"}
MIN_TOKENS = 6  # three for the first chunk, and several steps of one token


def scan(
    model: nn.Module,
    x: Tensor,
    *,
    causal: bool = True,
    call: Callable[..., Any] | None = None,
    make_cache: Callable[[Tensor], Any] | None = None,
    paths: Sequence[str] | None = None,
    name: str | None = None,
    on_path: Callable[[str], None] | None = None,
) -> ScanReport:
    """Find out whether a model gives the same output on every path: fused or written out, cached, masked, padded.

    The plain pass is the model on x alone, in evaluation mode and in float64 if it runs so. Every path that the model
    offers is compared with it, and each is asked whether its output depends on later tokens. A path that the model
    does not offer is listed as not run; one on which it raises, or that can't be looked into, as not examined. The
    model itself is not changed.

    Args:
        model: a module; models of transformers are run by their conventions.
        x: (batch, token) token ids, or (batch, token, width) embeddings; two samples of six tokens or more.
        causal: whether a token must not see later ones.
        call: (model, x, further options) -> output, for models that need more than x; its other parameters are the
            options that the paths may give.
        make_cache: x -> empty cache of its batch size and dtype, for models whose cache is an argument.
        paths: names of the paths to run; all but "compiled" if None.
        name: of the model in the report; its class if None.
        on_path: called with the name of each path before it is run.

    Returns:
        ScanReport.

    Raises:
        TypeError: a model that is not a module; x that is no tensor of ids or embeddings.
        ValueError: x of a shape that shows nothing; an unknown path.
    """
    _check(model, x, paths)
    subject = _subject(model, x, call, make_cache, causal)
    if isinstance(subject, str):
        return ScanReport(name or type(model).__name__, failure=subject)
    outcomes: list[Outcome] = []
    for one in PATHS if paths is None else (one for one in (*PATHS, *ASKED) if one.name in paths):
        if on_path is not None:
            on_path(one.name)
        outcomes += _outcomes(one.name, one.check, subject)
    return ScanReport(name or type(model).__name__, tuple(outcomes))


def _outcomes(name: str, check: Callable[[Model], Any], subject: Model) -> list[Outcome]:
    try:
        found = list(check(subject)) or [Outcome(name, "agrees", "nothing was found")]
    except NotOffered as error:
        return [Outcome(name, "not run", str(error))]
    except CannotRun as error:
        return [Outcome(name, "not examined", str(error))]
    if subject.recurrent and name in OF_THE_STATE:  # a state that the padding enters is no mistake of attention
        return [_as_remark(one, "some of its layers are recurrent") for one in found]
    if name != "one pass" and max(subject.keeps_state, subject.is_random) > UNTOUCHED:
        return [_as_remark(one, "two plain passes already differ from each other") for one in found]
    if name not in ("one pass", "attention") and subject.sees_the_future > UNTOUCHED:
        return [_as_remark(one, "it can't agree with a plain pass that sees the future") for one in found]
    return found


def _as_remark(outcome: Outcome, reason: str) -> Outcome:
    """Return what is wrong as a remark with a reason; other outcomes stay."""
    return replace(outcome, status="remark", said=f"{outcome.said}; {reason}") if outcome.status == "wrong" else outcome


def _subject(
    model: nn.Module,
    x: Tensor,
    call: Callable[..., Any] | None,
    make_cache: Callable[[Tensor], Any] | None,
    causal: bool,
) -> Model | str:
    """Return the model in float64 if it runs so, else in its own dtype; or the reason why it does not run."""
    x = x.detach().cpu().clone()
    reason = ""
    for dtype in (torch.float64, None):
        module = copy.deepcopy(model).cpu()
        module.eval()
        given = x
        if dtype is not None:
            module, given = module.to(dtype), x.to(dtype) if x.is_floating_point() else x
        subject = Model(module, given, call, make_cache, causal)
        try:
            output = subject.plain_output
        except CannotRun as error:
            reason = str(error)
            continue
        if output.isfinite().any():
            return subject
        reason = "its output is not finite"
    return reason


def _check(model: Any, x: Any, paths: Sequence[str] | None) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a module, got {type(model).__name__}.")
    if not isinstance(x, Tensor) or x.is_complex() or x.dtype == torch.bool:
        raise TypeError(f"x must be a tensor of token ids or embeddings, got {getattr(x, 'dtype', type(x).__name__)}.")
    if x.dim() != (3 if x.is_floating_point() else 2) or len(x) < 2 or x.shape[1] < MIN_TOKENS:
        raise ValueError(
            f"x must be (batch, token) ids or (batch, token, width) embeddings of at least 2 samples of {MIN_TOKENS} "
            f"tokens, got the shape {tuple(x.shape)}."
        )
    if not x.is_floating_point() and len(x.unique()) < 2:
        raise ValueError("x must hold at least two different token ids, so that a change can show.")
    known = [one.name for one in (*PATHS, *ASKED)]
    unknown = [name for name in paths or () if name not in known]
    if unknown:
        raise ValueError(f"paths must be among {', '.join(known)}; got {unknown[0]!r}.")
