"""Masks that meet the wrong axes: heads for samples, queries for keys, the first corner for the last."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..examination import Examination
from ..labels import NOTHING
from ..report import Finding
from .mask_lines import alignment_line
from .pipeline import masking
from .weights import picture_of, picture_of_layout


def check_rank(examination: Examination) -> Iterator[Finding]:
    """A mask with more axes than the scores makes more scores of them."""
    for operation in masking(examination):
        before = [v for v in operation.inputs if (examination.anatomy.score_labels[v.number] != NOTHING).any()]
        after = operation.outputs[0].tensor
        if before and before[0].tensor.dim() < after.dim() and operation.name not in ("baddbmm", "addmm"):
            words = f"the mask turns scores of the shape {tuple(before[0].tensor.shape)} into {tuple(after.shape)}"
            yield Finding.named("mask-rank", words, operation.where, lambda: picture_of_layout(examination))
            return


def applied_elsewhere(examination: Examination, seen: Tensor) -> str | None:
    """Whether masks of samples were applied to heads, to other samples or to all; what happened, in words."""
    expected = examination.expected
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


def cut_off_at_the_corner(examination: Examination, seen: Tensor) -> Finding | None:
    """Fewer queries than keys, and the triangle begins with the first key."""
    anatomy, expected = examination.anatomy, examination.expected
    for row in anatomy.rows if examination.causal else ():
        met = sorted(set(row.score_keys))
        mine = seen[row.sample, row.head, row.query]
        if not (expected[row.sample, row.head, row.query] & ~mine).any() or len(met) < 2:
            continue
        visible = [key for key in met if mine[key]]
        together = sorted({r.query for r in anatomy.rows if r.mix is row.mix and r.sample == row.sample})
        corner = met[min(together.index(row.query), len(met) - 1)]  # the key beside which the mask puts the query
        shown = [key for key in met if expected[row.sample, row.head, corner, key]]
        if len(together) < len(met) and visible == shown:
            mix = row.mix.operation
            first = visible == met[: len(visible)]
            which = f"the first {len(visible)}" if first else f"the tokens {visible}, as token {corner} should"
            return Finding.named(
                "causal-top-left",
                f"token {row.query} meets {len(met)} keys and sees only {which}",
                alignment_line(examination, mix, len(together)) or mix.where,
                lambda: picture_of(examination),
            )
    return None
