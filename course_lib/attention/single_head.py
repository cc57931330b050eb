"""One attention head as a module."""

from __future__ import annotations

from torch import Tensor, nn

from .base import Attention
from .checks import check_positive


class SingleHeadAttention(Attention):
    """One head of self-attention: three projections and the formula.

        queries, keys, values = x W_Q, x W_K, x W_V
        output = softmax(queries keys^T / sqrt(d_out), masked) values

    W_Q, W_K and W_V are `q_proj`, `k_proj` and `v_proj`. There is no output projection,
    because a single head has nothing to combine.

    Args:
        d_in: width of an input token.
        d_out: width of an output token, which is the width of the head.
        causal: whether each token attends only to itself and to earlier ones.
        dropout: probability in [0, 1) of dropping an attention weight, in training only.
        bias: whether the projections have a bias.

    Raises:
        ValueError: a width below 1, dropout outside [0, 1).
        TypeError: a width that is not an integer.

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.1.

    Example:
        >>> head = SingleHeadAttention(3, 2)
        >>> head(torch.randn(1, 6, 3)).shape
        torch.Size([1, 6, 2])
    """

    def __init__(self, d_in: int, d_out: int, *, causal: bool = True, dropout: float = 0.0, bias: bool = False) -> None:
        super().__init__(causal=causal, dropout=dropout)
        check_positive(d_in=d_in, d_out=d_out)
        self.q_proj = nn.Linear(d_in, d_out, bias=bias)
        self.k_proj = nn.Linear(d_in, d_out, bias=bias)
        self.v_proj = nn.Linear(d_in, d_out, bias=bias)

    def forward(
        self, x: Tensor, *, keep: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor | None]:
        """Attend within each sample.

        Args:
            x: (batch, token, d_in).
            keep: bool, True = may attend, broadcasts to (batch, 1, query, key); combined with the causal mask by `&`.
            return_weights: whether to return the attention weights too.

        Returns:
            output (batch, token, d_out), or (output, weights) with attention weights (batch, 1, query, key).

        Raises:
            ValueError, TypeError: x or keep does not fit; the message says why.
        """
        self.prepare(x, 1, keep, return_weights)
        queries = self.q_proj(x)[:, None]  # (b, t, m) -> (b, t, d) -> (b, 1, t, d): one head
        keys = self.k_proj(x)[:, None]
        values = self.v_proj(x)[:, None]
        context, weights = self.run_kernel(queries, keys, values, keep)  # (b, 1, t, d), (b, 1, q, k)
        output = context[:, 0]  # (b, 1, t, d) -> (b, t, d)
        return (output, weights) if return_weights else output
