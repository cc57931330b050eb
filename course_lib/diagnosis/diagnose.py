"""The doctor: runs any attention code, finds what is wrong with it, gives it a name and points at the line."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from .examination import Examination, examine, expected_keep, mask_argument
from .lines import of_attribute, of_missing_return
from .patient import Patient, PatientFailed, line_of
from .report import Finding, Report
from .rules import device, heads, outputs, outside, running, scores, visibility

# What follows from what: a finding on the left explains those on the right.
EXPLAINS = {
    "returns-none": None,
    "mask-rank": {"merge-without-transpose", "nan-on-hidden-rows", "fixed-length", "batch-mixed", "fixed-batch",
                  "split-without-transpose", "heads-share-scores", "no-causal-mask", "heads-averaged"},
    "dropout-at-eval": None,  # None: everything that is read off the numbers
    "split-without-transpose": None,
    "batch-mixed": None,
    "fixed-batch": None,
    "stale-cache": {"scores-from-values", "projection-reused", "heads-share-weights", "heads-share-scores",
                    "kv-head-zero-only", "kv-heads-tiled", "no-causal-mask", "merge-without-transpose", "split-without-transpose", "causal-top-left"},
    "softmax-wrong-axis": {"no-causal-mask", "nan-on-hidden-rows", "wrong-scale", "missing-scale", "mask-inverted", "mask-with-zero",
                           "mask-off-by-one", "mask-discarded", "mask-after-softmax", "batch-mixed"},
    "no-softmax": {"no-causal-mask", "wrong-scale", "missing-scale", "mask-with-zero", "mask-after-softmax", "overflow-half"},
    "double-softmax": {"no-causal-mask", "wrong-scale", "missing-scale", "mask-with-zero", "mask-after-softmax"},
    "heads-share-scores": {"wrong-scale", "missing-scale", "projection-reused"},
    "heads-share-weights": {"projection-reused", "output-projection-missing"},
    "mask-off-by-one": {"nan-on-hidden-rows"},
    "mask-inverted": {"nan-on-hidden-rows"},
    "kv-head-zero-only": {"projection-reused", "output-projection-missing", "heads-share-weights"},
    "scores-from-values": {"output-projection-missing", "projection-reused"},
    "projection-reused": {"output-projection-missing"},
    "rotary-on-values": {"rotary-unused"},
    "overflow-half": {"dtype-pinned", "nan-on-hidden-rows"},
    "fixed-length": {"no-causal-mask"},
    "input-modified": {"stale-cache"},
    "heads-averaged": {"merge-without-transpose"},
    "dtype-pinned": {"wrong-scale"},
}  # fmt: skip
BEHIND_NUMBERS = {"returns-none", "dropout-at-eval", "input-modified", "device-pinned", "dtype-pinned", "split-without-transpose",
                  "batch-mixed", "fixed-batch", "fixed-length", "dropout-before-softmax"}  # fmt: skip


def diagnose(
    module_or_function: Callable[..., Any],
    x: Tensor,
    *,
    causal: bool = True,
    num_heads: int | None = None,
    num_kv_heads: int | None = None,
    keep: Tensor | None = None,
    call: Callable[[Any, Tensor], Any] | None = None,
) -> Report:
    """Find out whether code computes attention, and if not, which mistake it makes and where.

    The code is run many times, on copies: in 64 bits, with one token changed, with other samples, sizes, dtypes and
    devices. What runs is written down operation by operation, and queries, keys, values and weights are told by which
    tokens and which columns of weights they depend on, so the style of the code does not matter.

    Args:
        module_or_function: a module, or a function of x.
        x: (batch, token, d_in), or (token, d_in); a few tokens of a small width will do.
        causal: whether a token must not see later ones.
        num_heads, num_kv_heads: of the code, where known; mistakes that keep all shapes can then be told from intent.
        keep: bool, True = may attend, broadcastable to (batch, head, query, key): what is meant to be seen besides
            the causal mask: a window, padding.
        call: (code, x) -> output, for code that takes or gives more than one tensor.

    Returns:
        Report.

    Raises:
        TypeError: code that can't be called, x or keep that are no tensors of the right dtype.
        ValueError: x or keep of a shape that doesn't fit, numbers of heads below 1.

    Example:
        >>> from course_lib.attention import MultiHeadAttention
        >>> diagnose(MultiHeadAttention(11, 21, 3), torch.randn(2, 5, 11), num_heads=3).ok
        True
    """
    _check(module_or_function, x, causal, num_heads, num_kv_heads, keep, call)
    name = getattr(module_or_function, "__name__", None) or type(module_or_function).__name__
    if x.dim() == 2:
        inner = call or (lambda code, tokens: code(tokens))
        x, call = x[None], lambda code, tokens: torch.stack([inner(code, sample) for sample in tokens])
    with _one_thread():
        return _diagnose(module_or_function, x, name, causal, num_heads, num_kv_heads, keep, call)


def _diagnose(
    code: Callable[..., Any],
    x: Tensor,
    name: str,
    causal: bool,
    num_heads: int | None,
    num_kv_heads: int | None,
    keep: Tensor | None,
    call: Callable[[Any, Tensor], Any] | None,
) -> Report:
    try:
        patient = Patient(code, call)
    except (RuntimeError, copy.Error) as error:
        return Report(name, (_failed(error),))
    told = {"causal": causal, "num_heads": num_heads, "num_kv_heads": num_kv_heads, "keep": keep}
    examination = examine(patient, x, **told)
    if call is None:
        examination = _with_mask(examination, told) or examination
    findings = _ordered(list(_findings(examination)))
    return Report(name, tuple(findings), tuple(_checked(examination, findings)), tuple(_remarks(examination)))


def _findings(examination: Examination) -> Iterable[Finding]:
    if isinstance(examination.result, Exception):
        yield from _failure(examination)
        return
    if examination.trace.output is None:
        yield _no_tensor(examination)
        return
    shape = tuple(examination.trace.output.tensor.shape)
    if shape[:2] != tuple(examination.x.shape[:2]) or len(shape) != 3:
        yield from running.check_input(examination)
        yield _wrong_shape(examination, shape)
        return
    yield from running.check_repeats(examination)
    yield from running.check_input(examination)
    anatomy = examination.anatomy
    if anatomy is None or not anatomy.meetings:
        found = [] if anatomy is None else [*outputs.check_samples(examination), *running.check_state(examination)]
        yield from found
        if not found:
            why = examination.why_not or "no product compares one token with another"
            words = "It differs from attention in this way: queries and keys can't be found."
            yield Finding(None, why, None, words)
        return
    rules = [outputs.check_applied, outputs.check_samples]
    if anatomy.mixes:
        rules = [visibility.check_rank, *rules, heads.check_scores_merged]
    if examination.flow is not None:
        rules += [
            heads.check_split, heads.check_heads, heads.check_kv_sharing, heads.check_projections, running.check_cache,
            running.check_hidden_rows, scores.check_normalisation, visibility.check_visibility, scores.check_scale,
            outputs.check_averaged, heads.check_landing,
        ]  # fmt: skip
    elif anatomy.rows:
        rules += [heads.check_split]
    rules += [
        outputs.check_output_projection, outputs.check_output_width, running.check_rotary, running.check_state,
        running.check_sizes, running.check_half, running.check_dtypes, running.check_dropout_place, device.check_device,
    ]  # fmt: skip
    for rule in rules:
        yield from rule(examination)


def _with_mask(examination: Examination, told: dict[str, Any]) -> Examination | None:
    """Give a mask to code that takes one, in the sense in which it understands it; None where none is needed."""
    patient = examination.patient
    argument = mask_argument(patient.original)
    failed = isinstance(examination.result, TypeError) and "argument" in str(examination.result)
    if argument is None or not (failed or told["keep"] is not None):
        return None
    if not failed and examination.flow is not None:
        if torch.equal(visibility.seen_pattern(examination), examination.expected):
            return None
    first = None
    keep = told["keep"]

    def call_with(sense: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Tensor], Any]:
        def call(code: Any, x: Tensor) -> Any:
            seen = expected_keep(told["causal"], keep, len(x), 1, x.shape[1])
            seen = seen[0, 0] if keep is None else seen
            return Patient_usual(code, x, argument, sense(seen.to(x.device), x))

        return call

    for sense in SENSES if argument != "keep" else SENSES[:1]:
        other = Patient(patient.original, call_with(sense))
        tried = examine(other, examination.given, **told)
        if isinstance(tried.result, Exception) or tried.flow is None:
            continue
        first = first or tried
        if torch.equal(visibility.seen_pattern(tried), tried.expected):
            return tried
    return first


SENSES = (
    lambda seen, x: seen,
    lambda seen, x: ~seen,
    lambda seen, x: torch.zeros(seen.shape, dtype=x.dtype, device=x.device).masked_fill(~seen, -torch.inf),
    lambda seen, x: (~seen).to(x.dtype),
)


def Patient_usual(code: Any, x: Tensor, argument: str, mask: Tensor) -> Any:
    from .patient import first_tensor

    return first_tensor(code(x, **{argument: mask}))


def _failed(error: BaseException) -> Finding:
    return Finding(
        None, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", line_of(error),
        "It differs from attention in this way: it could not be run.",
    )  # fmt: skip


def _failure(examination: Examination) -> Iterable[Finding]:
    """What a run that raised tells; code that only can't be traced is examined from outside."""
    error = examination.result
    words = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    patient, x = examination.patient, examination.given
    line = line_of(error)
    with suppress(PatientFailed):
        patient.run(examination.x)
        yield from outside.check(examination)
        return
    with suppress(PatientFailed):  # perhaps only 64 bits are too many
        dtype = next(patient.original.parameters()).dtype if isinstance(patient.original, nn.Module) else x.dtype
        patient.run(x.to(dtype), patient.copy(dtype) if isinstance(patient.original, nn.Module) else None)
        yield Finding.named("dtype-pinned", f"in 64 bits: {words}", running._pinned(examination, torch.float64) or line)
        return
    if "expected scalar type" in words or "same dtype" in words:
        yield Finding.named("dtype-pinned", words, line)
        return
    if "shapes cannot be multiplied" in words or "size mismatch" in words or "must match" in words:
        name = _linear_on(examination, line)
        if name is not None:
            yield Finding.named("output-projection-shape", words, of_attribute(patient.code, name, "Linear") or line)
            return
    yield _failed(error)


def _linear_on(examination: Examination, line: str | None) -> str | None:
    """The attribute of the output projection if the run broke down in it."""
    code = examination.patient.code
    if not isinstance(code, nn.Module):
        return None
    products = [op for op in examination.trace.operations if op.name in ("bmm", "mm", "addmm", "sum")]
    linears = [name for name, module in code.named_modules() if isinstance(module, nn.Linear)]
    last = next((part for part in reversed(linears[-1].split(".")) if not part.isdigit()), None) if linears else None
    soft = [op for op in examination.trace.operations if "softmax" in op.name]
    return last if products and soft else None


def _no_tensor(examination: Examination) -> Finding:
    own = [op for op in examination.trace.operations if op.where]
    kind = type(examination.result).__name__
    if examination.result is None:
        return Finding.named("returns-none", "it gave back None", of_missing_return(own[-1]) if own else None)
    return Finding(
        None, f"it gave back {kind}", own[-1].where if own else None,
        "It differs from attention in this way: its output is no tensor.",
    )  # fmt: skip


def _wrong_shape(examination: Examination, shape: tuple[int, ...]) -> Finding:
    return Finding(
        None,
        f"for an input of {tuple(examination.x.shape)} it gave {shape}; (batch, token, width) was expected",
        None,
        "It differs from attention in this way: there is no row of the output for each token.",
    )


def _ordered(findings: list[Finding]) -> list[Finding]:
    """The causes first, and what follows from them left out."""
    ids = [finding.mistake for finding in findings]
    for cause, effects in EXPLAINS.items():
        if cause in ids:
            findings = [
                f
                for f in findings
                if f.mistake == cause
                or (
                    f.mistake not in effects
                    if effects is not None
                    else f.mistake in BEHIND_NUMBERS - {"split-without-transpose"}
                )
            ]
            ids = [finding.mistake for finding in findings]
    unnamed = [f for f in findings if f.mistake is None]
    named = list({f.mistake: f for f in reversed(findings) if f.mistake is not None}.values())[::-1]
    return named or unnamed[:1]


def _checked(examination: Examination, findings: list[Finding]) -> Iterable[str]:
    if findings or examination.flow is None:
        return
    anatomy = examination.anatomy
    batch, num_tokens = anatomy.sizes
    yield f"{anatomy.num_heads} heads of width {anatomy.head_dim}, traced with {batch} samples of {num_tokens} tokens"
    weights = visibility.weights_of(examination)
    error = float((weights.sum(-1) - 1).abs()[examination.expected.any(-1)].max())
    digits = "9 digits or more" if error < 1e-9 else f"{error:.0e}"
    yield f"each query's weights sum to 1 (to {digits}), and hidden tokens get 0"


def _remarks(examination: Examination) -> Iterable[str]:
    return ()


def _check(code: Any, x: Any, causal: Any, num_heads: Any, num_kv_heads: Any, keep: Any, call: Any) -> None:
    if not callable(code):
        raise TypeError(f"module_or_function must be a module or a function, got {type(code).__name__}.")
    if not isinstance(x, Tensor) or not x.is_floating_point():
        kind = x.dtype if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"x must be a floating-point tensor (batch, token, d_in), got {kind}: give it embeddings.")
    if x.dim() not in (2, 3) or x.numel() == 0:
        raise ValueError(f"x must be (batch, token, d_in) or (token, d_in), got the shape {tuple(x.shape)}.")
    for name, number in (("num_heads", num_heads), ("num_kv_heads", num_kv_heads)):
        if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
            raise ValueError(f"{name} must be a whole number of at least 1, or None, got {number!r}.")
    if keep is not None:
        if not isinstance(keep, Tensor) or keep.dtype != torch.bool:
            kind = keep.dtype if isinstance(keep, Tensor) else type(keep).__name__
            raise TypeError(f"keep must be a bool tensor, True = may attend, got {kind}.")
    if not isinstance(causal, bool):
        raise TypeError(f"causal must be True or False, got {causal!r}.")
    if call is not None and not callable(call):
        raise TypeError(f"call must be a function of (code, x), got {type(call).__name__}.")


@contextmanager
def _one_thread():
    """Small tensors are faster in one thread, and the numbers are the same from run to run."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
