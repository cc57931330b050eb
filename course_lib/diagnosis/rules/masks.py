"""Who sees whom, compared with who should: the patterns of masks that went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..examination import Examination, expected_keep
from ..report import Finding
from .leaks import check_leak
from .mask_axes import applied_elsewhere, cut_off_at_the_corner
from .mask_lines import masking_line, meeting_line, pattern_line
from .weights import picture_of, seen_pattern, weights_of

Lines = Callable[[Examination], str | None]


@dataclass(frozen=True)
class Pattern:
    """What a wrong mask looks like.

    Attributes:
        mistake: its id.
        words: what every token then sees.
        shows: causal mask, keep mask without it, both (…, query, key) -> who is seen.
        line: which line is to blame.
        told: whether it only makes sense where a keep mask was told.
    """

    mistake: str
    words: str
    shows: Callable[[Tensor, Tensor], Tensor]
    line: Lines
    told: bool = False


# In this order: one that is told comes before one that only fits.
PATTERNS = (
    Pattern(
        "mask-inverted", "every token sees exactly those that keep should hide", lambda c, k: c & ~k, meeting_line, True
    ),
    Pattern(
        "mask-rank", "the mask of the keys is applied to the queries", lambda c, k: c & k.mT, meeting_line, True
    ),
    Pattern(
        "mask-inverted",
        "every token sees exactly the later ones that it should not see",
        lambda c, k: c.new_ones(c.shape).triu(1) & k,
        masking_line,
    ),
    Pattern(
        "mask-transposed",
        "every token sees itself and the later ones",
        lambda c, k: c.new_ones(c.shape).triu() & k,
        lambda examination: pattern_line(examination, turned=True),
    ),
    Pattern(
        "mask-off-by-one",
        "every token sees the next one, too",
        lambda c, k: c.new_ones(c.shape).tril(1) & k,
        pattern_line,
    ),
    Pattern("mask-off-by-one", "no token sees itself", lambda c, k: c.tril(-1) & k, pattern_line),
)  # fmt: skip


def check_visibility(examination: Examination) -> Iterator[Finding]:
    """Compare who is seen with who should be seen, and name the pattern."""
    seen, expected = seen_pattern(examination), examination.expected
    asked = expected.any(-1, keepdim=True)  # rows that may see nothing are another matter
    hidden, missing = seen & ~expected & asked, expected & ~seen
    if not hidden.any() and not missing.any():
        return

    def draw():
        return picture_of(examination)

    share = float(weights_of(examination)[hidden].abs().max()) if hidden.any() else 0.0
    leak = f"a hidden token gets a weight of up to {share:.4f}"
    elsewhere = applied_elsewhere(examination, seen)
    for pattern in _fitting(examination, seen, asked[..., 0]):
        if pattern.told or elsewhere is None:
            words = f"{pattern.words}: {leak}" if hidden.any() else pattern.words
            where = pattern.line(examination) or masking_line(examination)
            yield Finding.named(pattern.mistake, words, where, draw)
            return
    if elsewhere is not None:
        yield Finding.named("mask-rank", elsewhere, meeting_line(examination), draw)
        return
    cut = not hidden.any() or examination.keep is not None  # a window at the corner shows what the right one hides
    corner = cut_off_at_the_corner(examination, seen) if cut else None
    if corner is not None:
        yield corner
    elif not missing.any():
        yield from check_leak(examination, hidden, leak)
    else:
        sample, head, query, key = missing.nonzero()[0].tolist()
        words = f"in sample {sample}, head {head}, query {query} does not see key {key}; {int(missing.sum())} of "
        words += f"{int(expected.sum())} pairs that should meet don't"
        title = "It differs from attention in this way: tokens that should be seen are not."
        yield Finding(None, words, masking_line(examination), title, draw=draw)


def _fitting(examination: Examination, seen: Tensor, asked: Tensor) -> Iterator[Pattern]:
    """The patterns that agree in every row that can tell: where nothing is seen, weights are nan, zero or even."""
    batch, heads, num_tokens, _ = seen.shape
    causal = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    causal = (causal.tril() if examination.causal else causal).expand_as(seen)
    keep = expected_keep(False, examination.keep, batch, heads, num_tokens)
    for pattern in PATTERNS:
        possible = examination.keep is not None if pattern.told else examination.causal
        shown = pattern.shows(causal, keep)
        rows = shown.any(-1) & asked
        if possible and rows.any() and torch.equal(seen[rows], shown[rows]):
            yield pattern


def check_hidden_rows(examination: Examination) -> Iterator[Finding]:
    """A token that may look at nothing must give finite numbers."""
    output = examination.trace.output.tensor
    if examination.keep is None or not output.isnan().any():
        return
    blind = ~examination.expected[:, 0].any(-1)  # (batch, query)
    rows = output.isnan().any(-1)
    if not (rows & blind).any() or (rows & ~blind).any():
        return
    sample, query = (rows & blind).nonzero()[0].tolist()
    first = examination.first(lambda op: any(map(_nan, op.outputs)) and not any(map(_nan, op.inputs)))
    yield Finding.named(
        "nan-on-hidden-rows",
        f"query {query} of sample {sample} may look at nothing and becomes nan; "
        f"{int(rows.sum())} of {rows.numel()} rows are nan",
        first.where if first else None,
    )


def _nan(value) -> bool:
    return value.tensor.is_floating_point() and bool(value.tensor.isnan().any())
