"""The options of `diagnose`, which say what the code is meant to compute."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Options:
    """What the code is meant to compute, as far as the caller specifies it.

    Attributes:
        causal: whether a token must not attend to later ones.
        num_heads, num_kv_heads: of the code, or None if unknown.
        keep: bool, True = may attend, besides the causal mask; (batch, token) is padding of the keys, and
            (batch, query, key) one mask per sample.
        has_call: whether the caller specifies how to run the code.
        words: labels of the tokens in pictures; empty for their numbers.
    """

    causal: bool
    num_heads: int | None
    num_kv_heads: int | None
    keep: Tensor | None
    has_call: bool = False
    words: tuple[str, ...] = ()

    def expected_keep(self, batch: int, heads: int, num_tokens: int) -> Tensor:
        """Return which key each query should attend to, bool (batch, head, query, key).

        Raises:
            ValueError: `keep` does not broadcast to these sizes.
        """
        seen, keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool), self.keep
        seen = (seen.tril() if self.causal else seen).expand(batch, heads, num_tokens, num_tokens)
        if keep is None:
            return seen
        if keep.shape == (batch, num_tokens) and batch != num_tokens:
            keep = keep[:, None, None, :]
        elif keep.dim() == 3 and keep.shape[0] not in (1, heads) and keep.shape[0] == batch:
            keep = keep[:, None]
        try:
            return seen & keep
        except RuntimeError:
            raise ValueError(
                f"keep must broadcast to (batch, head, query, key) = {tuple(seen.shape)}, got the shape "
                f"{tuple(keep.shape)}."
            ) from None
