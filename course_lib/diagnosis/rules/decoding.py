"""What the prompt hides must stay hidden when later tokens come in pieces."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import Finding
from course_lib.diagnosis.finding_pictures import picture_of_weights
from course_lib.diagnosis.locate import lines_from_forward, locate_masking, locate_skipped_mask, locate_skipped_step
from course_lib.diagnosis.measure import SoftmaxPath, Visibility
from course_lib.diagnosis.registry import rule
from course_lib.tracing import Operation, SourceLine


@dataclass(frozen=True, eq=False)
class _Pieces:
    """The queries of a run with a cache.

    Attributes:
        visibility: of the run.
        first: the queries of the prompt.
        later: the queries of later pieces.
    """

    visibility: Visibility
    first: list[int]
    later: list[int]

    def leaks_later_only(self, hidden: Tensor) -> bool:
        """Return whether the prompt hides all pairs of (batch, head, query, key), and some, and later pieces do not."""
        leaked = self.visibility.leaked & hidden
        asked = hidden & self.visibility.asked[..., None]
        hides = asked[:, :, self.first].any() and not leaked[:, :, self.first].any()
        return bool(hides and leaked[:, :, self.later].any() and not self.visibility.missing.any())


@rule()
def check_later_pieces(visibility: Visibility) -> Iterator[Finding]:
    """Whether later pieces are masked as the prompt is."""
    pieces = _pieces(visibility)
    if pieces is None:
        return
    attention, options = visibility.attention, visibility.attention.options
    sizes = attention.seen.shape[:3]
    causal = replace(options, keep=None, window=None).expected_keep(*sizes) & attention.present[..., None]
    of_window = _hidden_by_window(visibility, causal)
    draw = partial(picture_of_weights, attention, visibility.path)
    where = _locate(pieces)
    if of_window is not None and pieces.leaks_later_only(of_window):
        yield Finding.named(
            "window-lost-in-decode", f"{_seen_by(pieces, of_window)}, which the prompt hides", where, draw
        )
    elif (width := _silent_window(pieces, causal)) is not None:
        evidence = f"the prompt's queries see {width} tokens each, and query {pieces.later[-1]} sees all before it"
        yield Finding.named("window-lost-in-decode", evidence, where, draw)
    elif pieces.leaks_later_only(~causal):
        yield Finding.named("mask-skipped-when-cached", f"{_seen_by(pieces, ~causal)}, a later one", where, draw)
    elif options.keep is not None and pieces.leaks_later_only(causal & ~attention.expected):
        hidden = causal & ~attention.expected
        evidence = f"{_seen_by(pieces, hidden)}, which the prompt hides"
        yield Finding.named("mask-skipped-when-cached", evidence, where, draw)


def _pieces(visibility: Visibility) -> _Pieces | None:
    """Return the prompt of several tokens and the queries after it; None for one pass, and for a loop over queries."""
    rows = visibility.attention.rows
    if not rows.is_cached or not visibility.attention.options.has_call:
        return None
    prompt = min(row.product.operation.number for row in rows.all)
    first = {row.query for row in rows.all if row.product.operation.number == prompt}
    later = {row.query for row in rows.all} - first
    return _Pieces(visibility, sorted(first), sorted(later)) if len(first) > 1 and later else None


def _hidden_by_window(visibility: Visibility, causal: Tensor) -> Tensor | None:
    """Return the pairs of the past that a window hides, given as an option or by `keep`; None without a window."""
    expected, options = visibility.attention.expected, visibility.attention.options
    if not options.causal:
        return None
    num_tokens = expected.shape[-1]
    near = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    for width in [options.window] if options.window else range(1, num_tokens):
        band = causal & near.triu(1 - width)
        if options.window or torch.equal(expected, band):
            return causal & ~band
    return None


def _silent_window(pieces: _Pieces, causal: Tensor) -> int | None:
    """Return the width of the window that the prompt has and later pieces have not; None if there is none."""
    attention = pieces.visibility.attention
    seen, near = attention.seen, torch.ones(causal.shape[-2:], dtype=torch.bool)
    if attention.options.keep is not None or not attention.options.causal:
        return None
    for width in range(1, len(pieces.first)):
        first = torch.equal(seen[:, :, pieces.first], (causal & near.triu(1 - width))[:, :, pieces.first])
        if first and torch.equal(seen[:, :, pieces.later], causal[:, :, pieces.later]):
            return width
    return None


def _seen_by(pieces: _Pieces, hidden: Tensor) -> str:
    leaked = (pieces.visibility.leaked & hidden).nonzero()
    sample, head, query, key = next(one for one in leaked.tolist() if one[2] in pieces.later)
    weight = float(pieces.visibility.attention.weights[sample, head, query, key])
    return f"query {query} comes after the prompt and gives a weight of {weight:.4f} to key {key}"


def _locate(pieces: _Pieces) -> SourceLine | None:
    """Find the softmax of a later piece where the prompt has none, what decides that it is not masked, or its line."""
    rows, path = pieces.visibility.attention.rows, pieces.visibility.path
    product = next(row.product for row in reversed(rows.all) if row.query == pieces.later[-1])
    before = path.trace.ancestors([product.left, product.right])
    softmaxes = [one for one in path.softmaxes if one.number in before]
    prompt = [line for one in path.softmaxes[:1] for line in lines_from_forward(one, path.run.subject)]
    lines = [line for one in softmaxes[-1:] for line in lines_from_forward(one, path.run.subject)]
    own = [line for line in lines if line not in prompt]
    skipped = _locate_skipped(path, softmaxes[-1]) if softmaxes else None
    return skipped or next(iter(own or lines[-1:]), None) or locate_masking(path)


def _locate_skipped(path: SoftmaxPath, later: Operation) -> SourceLine | None:
    """Find what decides that the scores of a later softmax are not masked as those of the first one are."""
    first, masked = path.trace.ancestors(path.softmaxes[0].inputs), path.trace.ancestors(later.inputs)
    lines = {one.where for one in path.hiding if one.number in masked}
    own = [one for one in path.hiding if one.number in first and one.where not in lines]
    step = locate_skipped_step(own[-1], later, path.trace.caller) if own else None
    return step or locate_skipped_mask(later, path.trace)
