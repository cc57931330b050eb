"""Compare which token attends to which with what was intended, and name the pattern of a wrong mask."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from course_lib.diagnosis.finding import FOREIGN_KEYS, GIVE_CONTEXT, Finding, Kind
from course_lib.diagnosis.finding_pictures import picture_of_layout, picture_of_weights
from course_lib.diagnosis.locate import (
    locate_alignment,
    locate_combination,
    locate_fill,
    locate_masking,
    locate_negation,
    locate_next_shown,
    locate_pattern,
    locate_window,
)
from course_lib.diagnosis.measure import (
    Attention,
    SoftmaxPath,
    Visibility,
    context_argument,
    groups_of,
    other_window,
    unused_mask,
)
from course_lib.diagnosis.registry import rule
from course_lib.diagnosis.rules.groups import groups_in_words
from course_lib.diagnosis.rules.layout import first_scramble
from course_lib.tracing import Operation, SourceLine, Value

from .idle_scores import hides_everything

GROUPS_OF_HEADS = (
    "its heads see tokens in different groups, as in the stripes of a grid: taken as meant; give `keep`, (1, head, "
    "query, key), to have them compared"
)
WEAK = -30.0  # exp(-30) is the smallest weight that counts as seen


@dataclass(frozen=True)
class Pattern:
    """The pattern of a wrong mask.

    Attributes:
        mistake: its id.
        effect: which tokens are then visible, in words.
        shown: (causal mask, keep mask without it) -> visible pairs, all bool (..., query, key).
        locate: finds the line to blame.
        of_keep: whether it is a pattern of the keep mask rather than of the causal mask.
    """

    mistake: str
    effect: str
    shown: Callable[[Tensor, Tensor], Tensor]
    locate: Callable[[SoftmaxPath], SourceLine | None]
    of_keep: bool = False


def _differs_between_queries(mask: Tensor) -> bool:
    return bool((mask != mask[..., :1, :]).any())


def _locate_inverted(path: SoftmaxPath) -> SourceLine | None:
    """Find the line that negates a given mask, or else the one that combines it with another."""
    negated = locate_negation(path)
    return locate_combination(path, of_axes=False) if negated == locate_masking(path) else negated


# The caller gave the keep mask, so its patterns come before those that merely fit.
PATTERNS = (
    Pattern("mask-inverted", "every token sees exactly those that keep should hide",
            lambda causal, keep: causal & ~keep, _locate_inverted, of_keep=True),
    Pattern("mask-transposed", "queries and keys are exchanged in the mask",
            lambda causal, keep: causal & keep.mT & _differs_between_queries(keep),
            partial(locate_pattern, transposed=True), of_keep=True),
    Pattern("mask-rank", "the mask of the keys is applied to the queries",
            lambda causal, keep: causal & keep.mT, locate_combination, of_keep=True),
    Pattern("mask-inverted", "every token sees exactly the later ones that it should not see",
            lambda causal, keep: torch.ones_like(causal).triu(1) & keep, locate_negation),
    Pattern("mask-transposed", "every token sees itself and the later ones",
            lambda causal, keep: torch.ones_like(causal).triu() & keep, partial(locate_pattern, transposed=True)),
    Pattern("mask-off-by-one", "every token sees the next one, too",
            lambda causal, keep: torch.ones_like(causal).tril(1) & keep, locate_pattern),
    Pattern("mask-off-by-one", "no token sees itself", lambda causal, keep: causal.tril(-1) & keep, locate_pattern),
)  # fmt: skip


@rule()
def check_rank(path: SoftmaxPath) -> Iterator[Finding]:
    """The shape of the mask."""
    for operation in path.masking:
        before = [value.tensor for value in operation.inputs if path.scores.reaches(value)]
        after = operation.outputs[0].tensor
        if before and before[0].dim() < after.dim() and operation.name not in ("baddbmm", "addmm"):
            evidence = f"the mask turns scores of the shape {tuple(before[0].shape)} into {tuple(after.shape)}"
            yield Finding.named("mask-rank", evidence, operation.where, partial(picture_of_layout, path.run))
            return


@rule()
def check_hidden_rows(attention: Attention) -> Iterator[Finding]:
    """Queries that may attend to no token."""
    output = attention.run.output.tensor
    if attention.options.keep is None or not output.isnan().any():
        return
    blind = ~attention.expected[:, 0].any(-1)  # (batch, query)
    rows = output.isnan().any(-1)
    if not (rows & blind).any() or (rows & ~blind).any():
        return
    sample, query = (rows & blind).nonzero()[0].tolist()
    made = (op for op in attention.trace.operations if any(map(_has_nan, op.outputs)))
    first = next((op for op in made if not any(map(_has_nan, op.inputs))), None)
    count = f"{int(rows.sum())} of {rows.numel()} rows are nan"
    evidence = f"query {query} of sample {sample} may attend to nothing and becomes nan; {count}"
    yield Finding.named("nan-on-hidden-rows", evidence, first.where if first else None)


def _has_nan(value: Value) -> bool:
    return value.tensor.is_floating_point() and bool(value.tensor.isnan().any())


@rule()
def check_pattern(visibility: Visibility) -> Iterator[Finding]:
    """The pattern of the mask."""
    found = wrong_pattern(visibility)
    if found is not None:
        yield found


def wrong_pattern(visibility: Visibility) -> Finding | None:
    """Name the pattern of a wrong mask, or the axes that it was applied to; None if nothing is wrong or known."""
    hidden, missing = visibility.leaked, visibility.missing
    if not (hidden.any() or missing.any()) or hides_everything(visibility.attention, visibility.path) is not None:
        return None
    options, draw = visibility.attention.options, partial(picture_of_weights, visibility.attention, visibility.path)
    unused = unused_mask(visibility.attention) if hidden.any() else None
    if unused is not None:
        evidence = f"the mask that would hide the right tokens is never used, and {describe_leak(visibility)}"
        return Finding.named("mask-discarded", evidence, unused.where)
    weak = weak_fill(visibility.path) if hidden.any() else None
    if weak is not None:
        evidence = f"all hidden scores count as {weak[1]:.4g}; {describe_leak(visibility)}"
        return Finding.named(name_of_fill(weak[1]), evidence, locate_fill(weak[0]), draw)
    other = _other_window(visibility)
    if other is not None:
        return other
    elsewhere = _applied_elsewhere(visibility.attention)
    for pattern in PATTERNS:
        of_keep = options.keep is not None and not visibility.ignores_keep
        possible = of_keep if pattern.of_keep else options.causal and elsewhere is None
        if possible and visibility.fits(pattern.shown):
            evidence = f"{pattern.effect}: {describe_leak(visibility)}" if hidden.any() else pattern.effect
            where = pattern.locate(visibility.path) or locate_masking(visibility.path)
            return Finding.named(pattern.mistake, evidence, where, draw)
    shown = visibility.shows_the_next() if options.causal and elsewhere is None else None
    if shown is not None:
        where = locate_next_shown(visibility.path, shown) or locate_masking(visibility.path)
        evidence = f"every token sees the next one where it is compared with it: {describe_leak(visibility)}"
        return Finding.named("mask-off-by-one", evidence, where, draw)
    if elsewhere is not None:
        return Finding.named("mask-rank", elsewhere, locate_combination(visibility.path), draw)
    found = _other_way_round(visibility, of_causal=options.causal and elsewhere is None)
    if found is not None:
        mistake, effect, where = found
        evidence = f"{effect}: {describe_leak(visibility)}"
        return Finding.named(mistake, evidence, where or locate_masking(visibility.path), draw)
    # A window in the wrong corner shows what the right one hides.
    return None if hidden.any() and options.keep is None else _cut_off_at_the_corner(visibility)


def name_of_fill(fill: float) -> str:
    """Return the mistake of a number that hidden scores have: about 0 is none at all, and what is lower is too weak."""
    return "mask-scaled" if fill < -1 else "mask-with-zero"


def weak_fill(path: SoftmaxPath) -> tuple[Operation, float] | None:
    """Return the operation before softmax that hides scores behind a number which a score can reach, and the number."""
    for operation in path.masking:
        before = not path.softmaxes or operation.number < path.softmaxes[0].number
        if operation.name in ("masked_fill", "masked_fill_") and before:
            given = operation.args[2]
            fill = float(given.tensor) if isinstance(given, Value) else float(given)
        elif operation.name == "where" and before:
            fill = _chosen_fill(path, operation)
        else:
            fill = _added_fill(path, operation) if before else None
        if fill is not None and fill > WEAK:
            return operation, fill
    return None


def _chosen_fill(path: SoftmaxPath, operation: Operation) -> float | None:
    """Return the one number that `where` chooses in place of some scores; None if it chooses several."""
    sides = operation.args[1:3]
    fixed = [one for one in sides if not isinstance(one, Value) or not path.scores.reaches(one)]
    if len(fixed) != 1:
        return None
    if not isinstance(fixed[0], Value):
        return float(fixed[0])
    made = fixed[0].tensor
    constant = made.is_floating_point() and made.numel() and bool((made == made.flatten()[0]).all())
    return float(made.flatten()[0]) if constant else None


def _added_fill(path: SoftmaxPath, operation: Operation) -> float | None:
    """Return the negative number that an operation adds to some scores, and 0 to the others; None for another mask."""
    if operation.name.rstrip("_") not in ("add", "sub"):
        return None
    masks = [value.tensor for value in operation.inputs if not path.dependence.on_input(value) and value.tensor.dim()]
    numbers = masks[0].unique().tolist() if len(masks) == 1 and masks[0].is_floating_point() else []
    added = sorted(-one for one in numbers) if operation.name.startswith("sub") else numbers
    return added[0] if len(added) == 2 and added[0] < added[1] == 0 else None


def _other_way_round(visibility: Visibility, *, of_causal: bool) -> tuple[str, str, SourceLine | None] | None:
    """Return the mistake, what it shows and its line, of a mask the other way round that is none of the patterns."""
    if _shows_the_opposite(visibility):
        effect = "tokens see others only where they should not"
        return "mask-inverted", effect, locate_pattern(visibility.path)
    if _is_transposed_in_part(visibility):
        effect = "wherever a token sees another one that it should not, it should be seen by that one instead"
        return "mask-transposed", effect, locate_pattern(visibility.path, transposed=True)
    if of_causal and _shows_the_later(visibility):
        effect = "tokens see themselves and later ones, and no earlier one"
        return "mask-transposed", effect, locate_pattern(visibility.path, transposed=True)
    return None


def _shows_the_opposite(visibility: Visibility) -> bool:
    """Return whether each query that a mask leaves some of its keys sees only what should be hidden from it.

    A row whose keys are all hidden is uniform, and so it shows all of them.
    """
    seen, expected = visibility.attention.seen, visibility.attention.expected
    compared = ~visibility.attention.scores.isnan()
    masked = (compared & ~seen).any(-1) & seen.any(-1)
    wrong = (seen & ~expected).any(-1) & ~(seen & expected).any(-1)
    return bool(masked.any() and wrong[masked].all())


def _is_transposed_in_part(visibility: Visibility) -> bool:
    """Return whether queries and keys are exchanged wherever a token sees what it should not, or the other way round.

    So does a triangle of some tokens that is transposed in a mask whose other blocks are right.
    """
    seen, expected = visibility.attention.seen, visibility.attention.expected
    wrong = visibility.leaked | visibility.missing
    return bool(wrong.any()) and torch.equal(wrong, wrong.mT) and torch.equal(seen[wrong], expected.mT[wrong])


def _shows_the_later(visibility: Visibility) -> bool:
    """Return whether the queries that a mask leaves some of their keys see themselves or later tokens, never earlier.

    So does a transposed mask that hides more than the past, or that meets a few queries at a time, as with a cache.
    """
    attention = visibility.attention
    seen, compared = attention.seen, ~attention.scores.isnan()
    masked = (compared & ~seen).any(-1) & seen.any(-1)
    earlier = (seen & masked[..., None]).tril(-1).any()
    later, own = seen.triu(1).any(-1) & masked, seen.diagonal(dim1=-2, dim2=-1) & masked
    return bool(not earlier and later.any() and 2 * own.sum() > masked.sum())


def _other_window(visibility: Visibility) -> Finding | None:
    """Detect a window of another width than the one that the caller gave."""
    attention = visibility.attention
    widths = other_window(attention)
    if widths is None:
        return None
    width, window = widths
    sees = "all tokens" if width == attention.seen.shape[-1] else f"{width} tokens, itself included"
    meant = f"window={window} was given" if attention.options.window else f"keep shows {window}"
    evidence, draw = f"a query sees up to {sees}, and {meant}", partial(picture_of_weights, attention, visibility.path)
    where = locate_window(visibility.path)
    if width in (window - 1, window + 1):
        return Finding.named("window-off-by-one", evidence, where, draw)
    return Finding.unnamed("the window has another width", evidence, where, draw)


def describe_leak(visibility: Visibility) -> str:
    largest = float(visibility.attention.weights[visibility.leaked].abs().max())
    return f"a hidden token gets a weight of up to {largest:{'.4f' if largest > 1e-4 else '.1e'}}"


def _applied_elsewhere(attention: Attention) -> str | None:
    """Describe where masks of samples were applied instead: to heads, to other samples or to all; None if nowhere."""
    seen, expected = attention.seen, attention.expected
    if attention.options.keep is None or not (expected & ~seen).any():
        return None
    if first_scramble(attention.structure) is not None:  # the keys of a head then belong to other tokens
        return None
    rows = expected.any(-1).all(0).all(0)
    each = expected[:, 0]
    differ = not (each == each[:1]).all()
    if (expected == expected[:, :1]).all() and not (seen == seen[:, :1]).all():
        return "the heads of one sample have different masks"
    if differ and (seen == seen[:1]).all():
        return "every sample has the same mask although other tokens are hidden in each"
    for sample in range(len(seen)) if differ else ():
        own = seen[sample, 0][rows]
        others = [other for other in range(len(seen)) if other != sample and torch.equal(own, each[other][rows])]
        if others and not torch.equal(own, each[sample][rows]):
            return f"sample {sample} is masked as sample {others[0]} should be"
    return None


def _cut_off_at_the_corner(visibility: Visibility) -> Finding | None:
    """Detect a mask for fewer queries than keys whose triangle begins with the first key."""
    attention = visibility.attention
    seen, expected, rows = attention.seen, attention.expected, attention.rows.all
    for row in rows if attention.options.causal else ():
        keys = sorted(set(row.score_keys))
        own = seen[row.sample, row.head, row.query]
        if not (expected[row.sample, row.head, row.query] & ~own).any() or len(keys) < 2:
            continue
        visible = [key for key in keys if own[key]]
        together = sorted({one.query for one in rows if one.product is row.product and one.sample == row.sample})
        corner = keys[min(together.index(row.query), len(keys) - 1)]  # the key that the mask aligns with the query
        shown = {key for key in keys if expected[row.sample, row.head, corner, key]}
        beside = {key for key in together if expected[row.sample, row.head, row.query, key]}  # with a mask of their own
        if len(together) < len(keys) and visible != keys and set(visible) in (shown, shown | beside):
            product = row.product.operation
            first = visible == keys[: len(visible)]
            which = f"the first {len(visible)}" if first else f"the tokens {visible}, as token {corner} should"
            evidence = f"token {row.query} is compared with {len(keys)} keys and sees only {which}"
            where = locate_alignment(visibility.path, product, len(together)) or product.where
            return Finding.named(
                "causal-top-left", evidence, where, partial(picture_of_weights, attention, visibility.path)
            )
    return None


@rule()
def check_missing(visibility: Visibility) -> Iterator[Finding | str]:
    """Tokens that are hidden by mistake."""
    missing, expected = visibility.missing, visibility.attention.expected
    if missing.any() and _in_groups(visibility):
        heads = visibility.attention.seen[0]
        yield GROUPS_OF_HEADS if (heads != heads[0]).any() else groups_in_words(heads[0])
    elif missing.any():
        sample, head, query, key = missing.nonzero()[0].tolist()
        count = f"{int(missing.sum())} of {int(expected.sum())} pairs that should be seen are not"
        evidence = f"in sample {sample}, head {head}, query {query} does not see key {key}; {count}"
        draw, attention = partial(picture_of_weights, visibility.attention, visibility.path), visibility.attention
        absent = attention.scores.isnan().all(2) & missing.any(2)  # keys that no query is compared with
        told = attention.options.has_call and context_argument(attention.run.subject.original)
        if told and torch.equal(missing, absent[:, :, None].expand_as(missing) & expected):
            keys = sorted(set(absent.nonzero()[:, -1].tolist()))
            evidence = f"no query is compared with the keys of the tokens {keys}; {GIVE_CONTEXT}"
            yield Finding.unseen(FOREIGN_KEYS, evidence)
            return
        yield Finding.unnamed(Kind.MORE_HIDDEN, evidence, locate_masking(visibility.path), draw)


def _in_groups(visibility: Visibility) -> bool:
    """Return whether code compares tokens in groups only: windows of a row, as many with each, or any for `lengths`.

    Groups such as stripes may be others by head.

    A wrong mask hides scores that were computed, and a wrong view gives heads different tokens.
    """
    attention, options = visibility.attention, visibility.attention.options
    free = options.keep is None and options.window is None and not options.num_context and not options.causal
    never_compared = attention.scores[visibility.missing].isnan().all()
    if not (free and never_compared and (attention.seen == attention.seen[:1]).all()):
        return False
    heads = attention.seen[0]
    if ((heads == heads[0]).all() and _are_windows(heads[0])) or all(map(_is_regular, heads)):
        return True
    grouped = [groups_of(seen, of_row=False) is not None for seen in heads if not seen.all()]
    fixed = bool(options.lengths) and all(grouped)
    return fixed and any(groups_of(seen, of_row=not options.has_grid) is not None for seen in heads)


def _are_windows(seen: Tensor) -> bool:
    """Return whether tokens see each other in neighbouring groups of one size, the last of which may be smaller."""
    size = int(seen[0].sum())
    of = torch.arange(len(seen)) // max(size, 1)
    return 1 < size < len(seen) and torch.equal(seen, of[:, None] == of)


def _is_regular(seen: Tensor) -> bool:
    """Return whether each query, bool (query, key), sees as many keys as any other, and each key is seen as often."""
    counts = torch.cat([seen.sum(0), seen.sum(1)])
    return bool((counts == counts[0]).all()) and int(counts[0]) > 1
