"""Compare the tokens that are visible with those that should be."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from .attention import Attention
from .softmax_path import SoftmaxPath

ADDITIONS = ("add", "add_")
FLOOR = 1e-6  # of a weight


@dataclass(frozen=True, eq=False)
class Visibility:
    """Which token attends to which, compared with what is expected; all masks are bool (batch, head, query, key)."""

    attention: Attention
    path: SoftmaxPath

    @cached_property
    def asked(self) -> Tensor:
        """(batch, head, query), the rows that may attend to something; nothing is expected of the others."""
        return self.attention.expected.any(-1)

    @cached_property
    def leaked(self) -> Tensor:
        """The pairs that should be hidden and are visible."""
        leaked = self.attention.seen & ~self.attention.expected & self.asked[..., None] & ~self._is_floor
        leaked &= self._reaches_output[:, None, :, None]
        if context := self.attention.options.num_context:
            leaked[..., :-context] = False  # queries may be keys as well, as in a resampler
        return leaked

    @cached_property
    def _reaches_output(self) -> Tensor:
        """(batch, query), the rows whose output depends on a token; that of padding may be multiplied by 0."""
        dependence, (batch, _, queries, _) = self.attention.structure.dependence, self.attention.seen.shape
        moved = (dependence.tokens[dependence.run.output.number] != 0).any(-1)
        return (
            moved if moved.any() and moved.shape == (batch, queries) else torch.ones(batch, queries, dtype=torch.bool)
        )

    @cached_property
    def _is_floor(self) -> Tensor:
        """The pairs whose weight is a tiny number that written-out softmax adds to all weights of a row, as for eps."""
        weights = self.attention.weights
        first = min((operation.number for operation in self.path.softmaxes), default=0)
        after = (operation for operation in self.path.operations if operation.number > first)
        adds = not self.path.named_softmaxes and any(operation.name in ADDITIONS for operation in after)
        least = weights.amin(-1, keepdim=True)
        return adds & (least > 0) & (least < FLOOR) & ((weights - least).abs() < 1e-6 * least)

    @cached_property
    def missing(self) -> Tensor:
        """The pairs that should be visible and are hidden."""
        return self.attention.expected & ~self.attention.seen

    @cached_property
    def ignores_keep(self) -> bool:
        """Whether each query sees what it would without `keep`, and no mask hides a token that is not later.

        A mask that hides all tokens from a query need not show in the weights, but it differs from query to query.
        """
        options, seen = self.attention.options, self.attention.seen
        plain = replace(options, keep=None).expected_keep(*seen.shape[:3])
        if options.keep is None or not torch.equal(seen[self.asked], plain[self.asked]):
            return False
        masks = [v.tensor for one in self.path.hiding for v in one.inputs if not self.path.scores.reaches(v)]
        return not any(_differs_among_earlier(mask, seen.shape[-1]) for mask in masks if mask.dim() >= 2)

    def fits(self, shown: Callable[[Tensor, Tensor], Tensor]) -> bool:
        """Return whether a pattern agrees in all rows, except those that see nothing, whose weights are arbitrary.

        Args:
            shown: (causal mask, keep mask without it) -> visible pairs.
        """
        seen = self.attention.seen
        options, sizes = self.attention.options, seen.shape[:3]
        causal = replace(options, keep=None).expected_keep(*sizes)
        pattern = shown(causal, replace(options, causal=False).expected_keep(*sizes))
        rows = pattern.any(-1) & self.asked
        return bool(rows.any()) and torch.equal(seen[rows], pattern[rows])

    def shows_the_next(self) -> int | None:
        """Return the first product whose queries see exactly the next token, too, wherever they are compared with it.

        Returns:
            The number of the value product, of which there are several if the queries come in pieces; None if other
            tokens are seen, too.
        """
        attention, leaked, rows = self.attention, self.leaked, self.attention.rows.all
        leaky = {row.product.operation.number for row in rows if leaked[row.sample, row.head, row.query].any()}
        nexts = torch.zeros_like(leaked)
        for row in rows:
            if row.product.operation.number in leaky and row.query + 1 in row.score_keys:
                nexts[row.sample, row.head, row.query, row.query + 1] = True
        own = attention.expected.diagonal(dim1=-2, dim2=-1)[..., None, :]  # keys that are no padding
        wanted = nexts & own & self.asked[..., None]
        only = bool(wanted.any()) and torch.equal(leaked, wanted) and not self.missing.any()
        return min(leaky) if only else None


def _differs_among_earlier(mask: Tensor, num_tokens: int) -> bool:
    """Return whether a mask that broadcasts to (..., query, key) differs among pairs that are not of a later key."""
    if any(size not in (1, num_tokens) for size in mask.shape[-2:]):
        return True
    earlier = torch.ones(num_tokens, num_tokens, dtype=torch.bool).tril()
    pairs = mask.expand(*mask.shape[:-2], num_tokens, num_tokens)[..., earlier]
    return bool((pairs != pairs.flatten()[0]).any())
