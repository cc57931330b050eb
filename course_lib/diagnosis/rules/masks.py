"""Who sees whom, compared with who should: the patterns of masks that went wrong."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.recorder.source import place_of

from ..examination import Examination, expected_keep
from ..labels import NOTHING
from ..lines import line_at, mask_in
from ..report import Finding
from ..trace import Operation
from .fit import fit
from .mask_lines import alignment_line, meeting_line, pattern_line
from .pipeline import MASKS, after_softmax, masking, pipeline, softmaxes
from .weights import TINY, picture_of, seen_pattern, weights_of


def check_rank(examination: Examination) -> Iterator[Finding]:
    """A mask with more axes than the scores makes more scores of them."""
    for operation in masking(examination):
        before = [v for v in operation.inputs if (examination.anatomy.score_labels[v.number] != NOTHING).any()]
        after = operation.outputs[0].tensor
        if before and before[0].tensor.dim() < after.dim() and operation.name not in ("baddbmm", "addmm"):
            yield Finding.named(
                "mask-rank",
                f"the mask turns scores of the shape {tuple(before[0].tensor.shape)} into {tuple(after.shape)}",
                operation.where,
            )
            return


def check_visibility(examination: Examination) -> Iterator[Finding]:
    """Compare who is seen with who should be seen, and name the pattern."""
    seen, expected = seen_pattern(examination), examination.expected
    weights = weights_of(examination)
    asked = expected.any(-1)  # rows that should see something
    num_tokens = seen.shape[-1]
    hidden = expected.logical_not() & asked[..., None] & seen
    missing = expected & seen.logical_not()
    if not hidden.any() and not missing.any():
        return
    names = {
        "inverted": torch.ones(num_tokens, num_tokens).triu(1).bool(),
        "transposed": torch.ones(num_tokens, num_tokens).triu().bool(),
        "ahead": torch.ones(num_tokens, num_tokens).tril(1).bool(),
        "behind": torch.ones(num_tokens, num_tokens).tril(-1).bool(),
        "all": torch.ones(num_tokens, num_tokens).bool(),
    }
    causal = torch.ones(num_tokens, num_tokens).tril().bool()
    keep = expected if examination.keep is not None else None

    def is_(name: str) -> bool:
        # A row in which everything is hidden is nan, zero or spread evenly: it can't tell.
        pattern = names[name].expand_as(seen)
        if keep is not None:
            pattern = pattern & _other_than_causal(examination)
        rows = pattern.any(-1) & asked
        return bool(rows.any()) and torch.equal(seen[rows], pattern[rows])

    def draw():
        return picture_of(examination)

    put = masking(examination)
    soft = softmaxes(examination)
    where = put[0].where if put else (soft[0].where if soft else None)
    made = pattern_line(examination) or where
    share = float(weights[hidden].abs().max()) if hidden.any() else 0.0
    leak = f"a hidden token gets a weight of up to {share:.4f}"
    if (
        keep is not None
        and not examination.causal
        and torch.equal(seen & asked[..., None], expected.logical_not() & asked[..., None])
    ):
        yield Finding.named("mask-inverted", "exactly the tokens that should be hidden are seen", where, draw)
        return
    if keep is not None and examination.causal:
        other = causal & _other_than_causal(examination).logical_not()
        rows = other.any(-1) & asked
        if rows.any() and torch.equal(seen[rows], other[rows]):
            line = meeting_line(examination) or where
            yield Finding.named("mask-inverted", "exactly the tokens that keep should hide are seen", line, draw)
            return
        turned = causal & _other_than_causal(examination).mT
        rows = turned.any(-1) & asked
        if rows.any() and torch.equal(seen[rows], turned[rows]):
            words = "the mask of the keys is applied to the queries"
            yield Finding.named("mask-rank", words, meeting_line(examination) or where, draw)
            return
    if examination.causal and is_("inverted"):
        yield Finding.named(
            "mask-inverted", "every token sees exactly the later ones that it should not see", where, draw
        )
        return
    rank = _by_head(examination, seen, expected)
    if rank:
        yield Finding.named("mask-rank", rank, meeting_line(examination) or where, draw)
        return
    if examination.causal and is_("transposed"):
        yield Finding.named(
            "mask-transposed",
            "every token sees itself and the later ones",
            pattern_line(examination, turned=True) or where,
            draw,
        )
        return
    if examination.causal and is_("ahead"):
        yield Finding.named("mask-off-by-one", f"every token sees the next one, too: {leak}", made, draw)
        return
    if examination.causal and is_("behind"):
        nan = bool(examination.trace.output.tensor.isnan().any())
        first = "and the first one becomes nan" if nan else "and the first one has nothing to look at"
        yield Finding.named("mask-off-by-one", f"no token sees itself, {first}", made, draw)
        return
    corner = _top_left(examination, seen, missing, hidden)
    if corner is not None:
        yield corner
        return
    if hidden.any() and not missing.any():
        yield from _leaking(examination, weights, hidden, leak, draw)
        return
    if missing.any():
        where_, what = _first_missing(missing)
        yield Finding(
            None,
            f"{what}; {int(missing.sum())} of {int(expected.sum())} pairs that should meet don't",
            where_ or where,
            "It differs from attention in this way: tokens that should be seen are not.",
            draw=draw,
        )
    else:
        yield Finding(None, leak, where, "It differs from attention in this way: hidden tokens are seen.", draw=draw)
    _ = causal


def _first_missing(missing: Tensor) -> tuple[None, str]:
    sample, head, query, key = missing.nonzero()[0].tolist()
    return None, f"in sample {sample}, head {head}, query {query} does not see key {key}"


def _other_than_causal(examination: Examination) -> Tensor:
    """The keep mask without the causal one."""

    batch, num_tokens = examination.x.shape[:2]
    return expected_keep(False, examination.keep, batch, examination.anatomy.num_heads, num_tokens)


def _by_head(examination: Examination, seen: Tensor, expected: Tensor) -> str | None:
    """Masks of samples that were applied to heads, to other samples or to queries."""
    if examination.keep is None or not (expected & ~seen).any():
        return None
    rows = expected.any(-1).all(0).all(0)
    each = expected[:, 0]
    apart = not torch.equal(each, each[:1].expand_as(each))
    alike = torch.equal(expected, expected[:, :1].expand_as(expected))
    if alike and not torch.equal(seen, seen[:, :1].expand_as(seen)):
        return "the heads of one sample have different masks"
    if apart and torch.equal(seen, seen[:1].expand_as(seen)):
        return "every sample has the same mask although other tokens are hidden in each"
    for sample in range(len(seen)) if apart else ():
        mine = seen[sample, 0][rows]
        others = [other for other in range(len(seen)) if other != sample and torch.equal(mine, each[other][rows])]
        if others and not torch.equal(mine, each[sample][rows]):
            return f"sample {sample} is masked as sample {others[0]} should be"
    return None


def _top_left(examination: Examination, seen: Tensor, missing: Tensor, hidden: Tensor) -> Finding | None:
    """Fewer queries than keys, with the triangle in the first corner."""
    if not missing.any() or hidden.any() or not examination.causal:
        return None
    anatomy = examination.anatomy
    for row in anatomy.rows:
        met = sorted(set(row.score_keys))
        if not missing[row.sample, row.head, row.query].any() or len(met) < 2:
            continue
        visible = [key for key in met if seen[row.sample, row.head, row.query, key]]
        together = sorted({r.query for r in anatomy.rows if r.mix is row.mix and r.sample == row.sample})
        place = together.index(row.query)
        if len(together) < len(met) and visible == met[: place + 1]:
            where = alignment_line(examination, row.mix.operation, len(together)) or row.mix.operation.where
            return Finding.named(
                "causal-top-left",
                f"token {row.query} meets {len(met)} keys and sees only the first {len(visible)}",
                where,
                lambda: picture_of(examination),
            )
    return None


def _leaking(examination: Examination, weights: Tensor, hidden: Tensor, leak: str, draw) -> Iterator[Finding]:
    """Some of what should be hidden is seen, and all that should be seen is."""
    discarded = _discarded(examination)
    soft = softmaxes(examination)
    put = masking(examination)
    zero = _hidden_as_zero(examination, weights, hidden)
    if zero is not None and put:
        yield Finding.named("mask-with-zero", f"{zero}; {leak}", put[0].where, draw)
        return
    if discarded is not None:
        yield Finding.named(
            "mask-discarded",
            f"the result of `{discarded.name.rstrip('_')}` is never used, and {leak}",
            thrown_away(discarded),
            draw,
        )
        return
    late = after_softmax(examination, put)
    if late:
        yield Finding.named("mask-after-softmax", leak, late[0].where, draw)
        return
    idle = [op for op in pipeline(examination) if op.name in MASKS]
    where = (mask_in(examination.patient.code, idle[0]) or idle[0].where) if idle else soft[0].where if soft else None
    one = _size_one_mask(examination)
    if one is not None:
        operation, line = one
        yield Finding.named(
            "fixed-length",
            f"the mask has the shape {tuple(operation)} for {weights.shape[-1]} tokens, is broadcast and hides "
            f"nothing: {leak}",
            line,
            draw,
        )
        return
    expected = examination.expected
    everywhere = weights.abs()[expected.any(-1)] > TINY
    pattern = "every token sees every other one" if everywhere.all() else "tokens are seen that should be hidden"
    yield Finding.named("no-causal-mask", f"{pattern}: {leak}", where, draw)


def _size_one_mask(examination: Examination) -> tuple[torch.Size, str | None] | None:
    for operation in pipeline(examination):
        for value in operation.inputs[1:]:
            shape = value.tensor.shape
            if len(shape) >= 2 and shape[-1] == shape[-2] == 1 and not examination.anatomy.tokens[value.number].any():
                return shape, mask_in(examination.patient.code, operation) or operation.where
    return None


def _discarded(examination: Examination) -> Operation | None:
    """A masked copy of the scores that nothing reads."""
    labels = examination.anatomy.score_labels
    for operation in examination.trace.operations:
        if operation.number in examination.alive or not operation.outputs:
            continue
        masks = operation.name in MASKS or operation.name in ("add", "sub", "mul", "zero_")
        if masks and (labels[operation.outputs[0].number] != NOTHING).any():
            return operation
    return None


def thrown_away(operation: Operation) -> str | None:
    """The statement that drops a result: the innermost one that neither assigns nor returns it."""
    for frame in operation.frames:
        place = place_of(*frame)
        if not any(place.names) and not place.source.startswith("return"):
            return line_at(place)
    return operation.where


def _hidden_as_zero(examination: Examination, weights: Tensor, hidden: Tensor) -> str | None:
    """Whether hidden scores were made one small number before softmax."""
    raw = examination.flow.raw
    found = fit(raw, weights, examination.expected & ~raw.isnan())
    if found is None or found.scale is None:
        return None
    fills = []
    for sample, head, query in hidden.any(-1).nonzero().tolist():
        there = hidden[sample, head, query]
        visible = examination.expected[sample, head, query]
        shares = weights[sample, head, query]
        if (shares[there] <= 0).any() or float(shares[there].max() - shares[there].min()) > 1e-9:
            return None
        anchor = visible.nonzero()[0, 0]
        fill = torch.log(shares[there][0] / shares[anchor]) + found.scale[head] * raw[sample, head, query, anchor]
        fills.append(float(fill))
    if not fills or max(fills) - min(fills) > 1e-5 * (1 + abs(fills[0])):
        return None
    return f"all hidden scores count as {fills[0]:.4g}"


def check_hidden_rows(examination: Examination) -> Iterator[Finding]:
    """A token that may look at nothing must give finite numbers."""
    output = examination.trace.output.tensor
    if examination.keep is None or not output.isnan().any():
        return

    batch, num_tokens = examination.x.shape[:2]
    expected = expected_keep(examination.causal, examination.keep, batch, 1, num_tokens)[:, 0]
    blind = ~expected.any(-1)  # (batch, query)
    rows = output.isnan().any(-1)
    if not (rows & blind).any() or (rows & ~blind).any():
        return
    sample, query = (rows & blind).nonzero()[0].tolist()
    first = examination.first(
        lambda op: (
            bool(op.outputs)
            and op.outputs[0].tensor.is_floating_point()
            and bool(op.outputs[0].tensor.isnan().any())
            and not any(v.tensor.is_floating_point() and v.tensor.isnan().any() for v in op.inputs)
        )
    )
    yield Finding.named(
        "nan-on-hidden-rows",
        f"query {query} of sample {sample} may look at nothing and becomes nan; "
        f"{int(rows.sum())} of {rows.numel()} rows are nan",
        first.where if first else None,
    )
