"""Run a model along all of its paths and compare them with its plain pass."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.diagnosis import check_intentions, copy_of, in_dtype
from course_lib.quantised import quantisation_note

from .compare import UNTOUCHED
from .model import NO_ROWS, CannotRun, Model, NotOffered
from .path import Outcome, Path
from .paths import IN_A_DTYPE, OF_CONTEXT, ON_REQUEST, PATHS
from .report import ScanReport

OF_IMAGES = "; images are examined by `diagnose`, on the command line by `course doctor`"
OUTPUT_OF_CALL = "give `call` (--call) to say what of it is the output, such as `lambda m, x: m(x)[0]`"
# paths on which the state of recurrent layers shows
OF_THE_STATE = {"padded right", "padded left", "padded, cached", "in chunks", "token by token"}
MIN_TOKENS = 6  # three for the first chunk, and several steps of one token


def scan(
    model: nn.Module,
    x: Tensor,
    *,
    causal: bool = True,
    context: Tensor | None = None,
    call: Callable[..., Any] | None = None,
    make_cache: Callable[[Tensor], Any] | None = None,
    scale: float | None = None,
    window: int | None = None,
    normalised: bool = True,
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
        context: (batch, context token) ids, (batch, context token, width) embeddings or other features: what the
            encoder of an encoder-decoder is given, or a module with cross-attention, besides x, the decoder's tokens.
        call: (model, x, further options) -> output, for models that need more than x; its other parameters are the
            options that the paths may give. With a context it is (model, x, context, further options).
        make_cache: x -> empty cache of its batch size and dtype, for models whose caller makes the cache. It is given
            to each piece, or what the model returns in its place.
        scale, window, normalised: what is meant, as for `diagnose`.
        paths: names of the paths to run; all but "compiled" if None.
        name: of the model in the report; its class if None.
        on_path: called with the name of each path before it is run.

    Returns:
        ScanReport.

    Raises:
        TypeError: a model that is not a module; x or context that is no tensor of ids or numbers.
        ValueError: x or context of a shape that shows nothing; an unknown path; a scale or window as for `diagnose`.
    """
    _check(model, x, paths)
    _check_context(context, x)
    check_intentions(scale, window, None, normalised, x)
    note = quantisation_note(model)
    name = name or type(model).__name__
    try:
        model = copy_of(model)
    except RuntimeError as error:
        return ScanReport(name, failure=str(error).removesuffix("."))
    meant = {"scale": scale, "window": window, "normalised": normalised}
    subject = _subject(model, x, context, call, make_cache, causal, meant)
    if isinstance(subject, str):
        return ScanReport(name, failure=subject)
    if subject.answers:
        answers_note = f"it was run with `{subject.answers}`=x, because it gives no output for each token without them"
        note = "; ".join(text for text in (note, answers_note) if text)
    native = _in_own_dtype(subject, model, x)
    outcomes: list[Outcome] = []
    for path in _chosen(paths, with_context=context is not None):
        if on_path is not None:
            on_path(path.name)
        outcomes += _outcomes(path, subject, native)
    return ScanReport(name, tuple(outcomes), note=note)


def _chosen(paths: Sequence[str] | None, *, with_context: bool) -> list[Path]:
    if paths is None:
        return [path for path in PATHS if with_context or path not in OF_CONTEXT]
    return [path for path in (*PATHS, *ON_REQUEST) if path.name in paths]


def _outcomes(path: Path, subject: Model, native: Model | None) -> list[Outcome]:
    """Run a path; what fails or overflows in float64 is run again in the model's own dtype."""
    name, outcomes = path.name, _run(path, subject)
    failed = any(each.status == "not examined" or each.deviation == torch.inf for each in outcomes)
    if failed and native is not None and path not in IN_A_DTYPE:
        subject, outcomes = native, _run(path, native)
    if all(each.status in ("not run", "not examined") for each in outcomes):
        return outcomes
    if subject.recurrent and name in OF_THE_STATE:  # a state that the padding enters is no mistake of attention
        return [_as_remark(each, "some of its layers are recurrent") for each in outcomes]
    if name != "one pass" and max(subject.keeps_state, subject.is_random) > UNTOUCHED:
        return [_as_remark(each, "two plain passes already differ from each other") for each in outcomes]
    if name != "one pass" and subject.sees_the_future > UNTOUCHED:
        reason = "it can't agree with a plain pass that sees the future"
        return [each if name == "attention" and each.mistake else _as_remark(each, reason) for each in outcomes]
    return outcomes


def _run(path: Path, subject: Model) -> list[Outcome]:
    try:
        return list(path.check(subject)) or [Outcome(path.name, "agrees", "nothing was found")]
    except NotOffered as error:
        return [Outcome(path.name, "not run", str(error))]
    except CannotRun as error:
        return [Outcome(path.name, "not examined", str(error))]


def _as_remark(outcome: Outcome, reason: str) -> Outcome:
    if outcome.status != "wrong":
        return outcome
    return replace(outcome, status="remark", detail=f"{outcome.detail}; {reason}")


def _subject(
    model: nn.Module,
    x: Tensor,
    context: Tensor | None,
    call: Callable[..., Any] | None,
    make_cache: Callable[[Tensor], Any] | None,
    causal: bool,
    meant: dict[str, Any],
) -> Model | str:
    """Return the model in float64, or in its own dtype where float64 fails; else the reason why it does not run."""
    x = x.detach().cpu().clone()
    context = None if context is None else context.detach().cpu().clone()
    reason = ""
    for dtype in (torch.float64, None):
        module = copy_of(model).cpu()
        module.eval()
        inputs = x
        if dtype is not None:
            module, inputs = in_dtype(dtype, module), x.to(dtype) if x.is_floating_point() else x
        subject = Model(module, inputs, call, make_cache, causal, context, meant=meant)
        reason = _why_not(subject)
        answered = subject.with_answers() if reason.startswith(NO_ROWS) else None
        if answered is not None and not _why_not(answered):
            return answered
        if not reason:
            return subject
    return reason


def _why_not(subject: Model) -> str:
    """Return why the plain pass can't serve as a reference, as a clause; "" if it can."""
    try:
        return "" if subject.plain_output.isfinite().any() else "its output is not finite"
    except CannotRun as error:
        of_call = f"; {OUTPUT_OF_CALL}" if str(error) == NO_ROWS and subject.call is None else ""
        return f"{error}{_remedy(error)}{of_call}"


def _in_own_dtype(subject: Model, model: nn.Module, x: Tensor) -> Model | None:
    """Return the model in its own dtype where the subject was converted to float64; else None."""
    dtypes = {parameter.dtype for parameter in model.parameters() if parameter.is_floating_point()}
    if dtypes <= {torch.float64} or any(parameter.dtype in dtypes for parameter in subject.module.parameters()):
        return None
    module = copy_of(model).cpu()
    module.eval()
    return replace(subject, module=module, x=x.detach().cpu().clone())


def _remedy(error: CannotRun) -> str:
    """Return the remedy for a model of token ids that got embeddings, as the end of a clause."""
    of_ids = "indices" in str(error) and "Long" in str(error)
    return "; it takes token ids: give them as x, on the command line with `--x` or `--vocabulary 29`" if of_ids else ""


def _check(model: Any, x: Any, paths: Sequence[str] | None) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a module, got {type(model).__name__}.")
    if not isinstance(x, Tensor) or x.is_complex() or x.dtype == torch.bool:
        raise TypeError(f"x must be a tensor of token ids or embeddings, got {getattr(x, 'dtype', type(x).__name__)}.")
    if x.dim() != (3 if x.is_floating_point() else 2) or len(x) < 2 or x.shape[1] < MIN_TOKENS:
        raise ValueError(
            f"x must be (batch, token) ids or (batch, token, width) embeddings of at least 2 samples of {MIN_TOKENS} "
            f"tokens, got the shape {tuple(x.shape)}{OF_IMAGES * (x.dim() > 3)}."
        )
    if not x.is_floating_point() and len(x.unique()) < 2:
        raise ValueError("x must hold at least two different token ids, so that a change can show.")
    known = [path.name for path in (*PATHS, *ON_REQUEST)]
    unknown = [name for name in paths or () if name not in known]
    if unknown:
        raise ValueError(f"paths must be among {', '.join(known)}; got {unknown[0]!r}.")


def _check_context(context: Any, x: Tensor) -> None:
    if context is None:
        return
    if not isinstance(context, Tensor) or context.is_complex() or context.dtype == torch.bool:
        kind = getattr(context, "dtype", type(context).__name__)
        raise TypeError(f"context must be a tensor of token ids or numbers, got {kind}.")
    if context.dim() < 2 or len(context) != len(x):
        raise ValueError(f"context must have a row for each of the {len(x)} samples of x, got {tuple(context.shape)}.")
