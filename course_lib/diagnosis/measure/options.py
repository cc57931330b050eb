"""The options of `diagnose`, which say what the code is meant to compute."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

MOST_TOKENS = 62  # that are traced to judge a window; the tokens that an element depends on are bits of an int64


@dataclass(frozen=True, eq=False)
class Options:
    """What the code is meant to compute, as far as the caller specifies it.

    Attributes:
        causal: whether a token must not attend to later ones.
        num_heads, num_kv_heads: of the code, or None if unknown.
        keep: bool, True = may attend, besides the causal mask; (batch, token) is padding of the keys, and
            (batch, query, key) one mask per sample.
        has_call: whether the caller specifies how to run the code, or the doctor does, for tokens with several axes.
        words: labels of the tokens in pictures; empty for their numbers.
        scale: what a dot product of query and key is multiplied by; None for head_dim ** -0.5.
        window: how many tokens a query may see, itself included; None for all.
        lengths: the only numbers of tokens that the code takes; empty for any.
        normalised: whether the weights of a query sum to 1.
        num_context: how many of the tokens, the last ones, are keys and values alone, because they are a context.
        offered: the argument, with its value, that the code was given so that it masks; "" for none.
        in_groups: whether `keep` shows the groups, such as windows, in which the tokens of a grid see each other.
        has_grid: whether x had several axes of tokens.
        of_axes: whether the tokens of a grid see others by several attentions, each of which is along one axis.
        expect: a module or function that computes what the code should, or None.
        expect_call: how to run it, (code, x) -> output; None for as the code.
        gives_call: whether it is the caller that specifies how to run the code.
    """

    causal: bool
    num_heads: int | None
    num_kv_heads: int | None
    keep: Tensor | None
    has_call: bool = False
    words: tuple[str, ...] = ()
    scale: float | None = None
    window: int | None = None
    lengths: tuple[int, ...] = ()
    normalised: bool = True
    num_context: int = 0
    offered: str = ""
    in_groups: bool = False
    has_grid: bool = False
    of_axes: bool = False
    expect: Callable[..., Any] | None = None
    expect_call: Callable[..., Any] | None = None
    gives_call: bool = False

    @property
    def fixed_tokens(self) -> bool:
        """Whether the number of tokens must stay as it is."""
        return self.keep is not None or bool(self.lengths) or self.num_context > 0

    @property
    def fewest_tokens(self) -> int:
        """How many tokens show a window: one that it hides and one more; 0 without one, or if they are too many."""
        needed = 0 if self.window is None or self.num_context else self.window + 2
        return needed if needed <= MOST_TOKENS else 0

    def expected_keep(self, batch: int, heads: int, num_tokens: int) -> Tensor:
        """Return which key each query should attend to, bool (batch, head, query, key).

        Raises:
            ValueError: `keep` does not broadcast to these sizes.
        """
        keep, num_queries, num_keys = self.keep, num_tokens - self.num_context, self.num_context or num_tokens
        seen = torch.ones(num_queries, num_keys, dtype=torch.bool)
        if self.causal and not self.num_context:
            seen = seen.tril()
        if self.window is not None and not self.num_context:
            seen = seen.triu(1 - self.window).tril(self.window - 1)
        seen = seen.expand(batch, heads, num_queries, num_keys)
        if keep is None:
            keep = seen[:1, :1]
        elif keep.shape == (batch, num_keys) and batch != num_queries:
            keep = keep[:, None, None, :]
        elif keep.dim() == 3 and keep.shape[0] == batch and (self.num_context or batch not in (1, heads)):
            keep = keep[:, None]
        try:
            if not self.num_context:
                return seen & keep
            both = torch.zeros(batch, heads, num_tokens, num_tokens, dtype=torch.bool)
            both[..., :num_queries, num_queries:] = keep  # x's queries with the context's keys, among all pairs of both
        except RuntimeError:
            wanted = f"(batch, head, query, {'context ' * bool(self.num_context)}key) = {tuple(seen.shape)}"
            raise ValueError(f"keep must broadcast to {wanted}, got the shape {tuple(keep.shape)}.") from None
        return both
