"""The doctor: runs any attention code, finds what is wrong with it, gives it a name and points at the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from . import failures
from .examination import Examination, cache_argument, examine
from .given_mask import with_mask
from .order import ordered
from .patient import Patient
from .refusals import check_arguments
from .report import Finding, Report
from .rules import (
    blanks,
    cache,
    calls,
    device,
    dropout,
    dtypes,
    heads,
    kv_heads,
    layout,
    mask_axes,
    masks,
    outputs,
    places,
    projections,
    rotary,
    samples,
    scale,
    sizes,
    softmax,
)  # fmt: skip
from .rules.weights import weights_of
from .twins import compared

# In order of likelihood: what a rule finds comes before what a later one finds.
ALWAYS = (calls.check_repeats, calls.check_input)
WITH_MIXES = (mask_axes.check_rank,)
WITH_MEETINGS = (outputs.check_applied, samples.check_samples)
WITH_SCORES = (heads.check_scores_merged,)
WITH_NUMBERS = (
    layout.check_split, heads.check_heads, kv_heads.check_kv_sharing, projections.check_projections, cache.check_cache,
    masks.check_hidden_rows, softmax.check_normalisation, masks.check_visibility, scale.check_scale,
    outputs.check_averaged, layout.check_landing,
)  # fmt: skip
AFTERWARDS = (
    outputs.check_output_projection, outputs.check_output_width, rotary.check_rotary, places.check_places,
    cache.check_state, sizes.check_sizes, dtypes.check_half, dtypes.check_dtypes, dropout.check_dropout_place,
    device.check_device,
)  # fmt: skip
LOST = "It differs from attention in this way: queries and keys can't be found."
UNCACHED = (
    "it was run without `{0}`. To have it write word by word, give `call`: a function of (code, x) that makes a new "
    "`{0}`, feeds it x in pieces and joins the outputs"
)


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

    The code is run many times, on copies and on the CPU: in 64 bits, with one token changed, with other samples,
    sizes, dtypes and a pretended device. What runs is written down operation by operation, and queries, keys, values
    and weights are told by which tokens and which columns of weights they depend on, so the style of the code does not
    matter.

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
    check_arguments(module_or_function, x, causal, num_heads, num_kv_heads, keep, call)
    name = getattr(module_or_function, "__name__", None) or type(module_or_function).__name__
    if x.dim() == 2:
        inner = call or (lambda code, tokens: code(tokens))
        x, call = x[None], lambda code, tokens: torch.stack([inner(code, sample) for sample in tokens])
    x, keep = x.detach().cpu().clone(), None if keep is None else keep.cpu()
    told = {"causal": causal, "num_heads": num_heads, "num_kv_heads": num_kv_heads, "keep": keep}
    with _one_thread():
        try:
            patient = Patient(module_or_function, call)
        except RuntimeError as error:  # a module that can't be copied
            return Report(name, (failures.of_error(error),))
        examination = examine(patient, x, **told)
        if call is None:
            examination = with_mask(examination, told)
            cached = cache_argument(module_or_function)
            if cached is not None and not isinstance(examination.result, Exception):
                examination.left_out.append(UNCACHED.format(cached))
        findings = ordered([compared(examination, finding) for finding in _findings(examination)])
        checked = () if findings else tuple(_in_order(examination))
        return Report(name, findings, checked, tuple(examination.left_out))


def _findings(examination: Examination) -> Iterator[Finding]:
    """What the rules find, for as much of an attention pass as is there."""
    if isinstance(examination.result, Exception):
        yield from failures.of_failed_run(examination)
        return
    if examination.trace.output is None:
        yield failures.of_no_tensor(examination)
        return
    for rule in ALWAYS:
        yield from rule(examination)
    shape = examination.trace.output.tensor.shape
    if len(shape) != 3 or shape[:2] != examination.x.shape[:2]:
        yield failures.of_wrong_shape(examination)
        return
    anatomy = examination.anatomy
    if anatomy is None or not anatomy.meetings:
        found = [] if anatomy is None else [*samples.check_samples(examination), *cache.check_state(examination)]
        yield from found
        if not found:
            why = examination.why_not or "no product compares one token with another"
            yield failures.of_foreign_keys(examination) or Finding(None, why, None, LOST)
        return
    rules = [*WITH_MIXES, *WITH_MEETINGS, *WITH_SCORES] if anatomy.mixes else [*WITH_MEETINGS]
    if examination.flow is not None:
        rules += WITH_NUMBERS
    elif anatomy.rows:
        rules += (layout.check_split,)
    for rule in (*rules, *AFTERWARDS):
        try:
            yield from rule(examination)
        except Exception as error:  # stranger code may be stranger than a rule foresaw; the others still count
            about = (rule.__doc__ or rule.__name__).splitlines()[0]
            examination.left_out.append(f"not checked: {about} ({type(error).__name__}: {error})")
        if examination.outlasting:  # no other run would be a fresh one
            return


def _in_order(examination: Examination) -> Iterator[str]:
    """What was found to be right."""
    anatomy = examination.anatomy
    if anatomy is None or examination.flow is None:
        return
    batch, num_tokens = anatomy.sizes
    heads = f"{anatomy.num_heads} head{'s' * (anatomy.num_heads > 1)}"
    yield f"{heads} of width {anatomy.head_dim}, traced with {batch} samples of {num_tokens} tokens"
    error = float((weights_of(examination).sum(-1) - 1).abs()[examination.expected.any(-1)].max())
    if error > 1e-6 and blanks.has_sink(examination):
        yield "each head keeps a share for nobody, the same before softmax for all queries, and hidden tokens get 0"
        return
    if error > 1e-6 and blanks.has_prefix(examination):
        yield "each query's weights and those of learned keys sum to 1, and hidden tokens get 0"
        return
    digits = "9 digits or more" if error < 1e-9 else f"{error:.0e}"
    yield f"each query's weights sum to 1 (to {digits}), and hidden tokens get 0"


@contextmanager
def _one_thread() -> Iterator[None]:
    """Small tensors are faster in one thread, and their numbers the same; inference mode would hide views."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode(False):
            yield
    finally:
        torch.set_num_threads(threads)
