"""Multi-head attention as a list of single heads that run one after the other."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .checks import check_divisible, check_input, check_keep, check_positive
from .single_head import SingleHeadAttention


class MultiHeadAttentionWrapper(nn.Module):
    """Several heads side by side; their outputs are concatenated and projected.

        head_i = softmax(x W_Q_i (x W_K_i)^T / sqrt(head_dim), masked) x W_V_i
        output = concat(head_0, ..., head_{h-1}) W_O

    head_i is `heads[i]`, W_O is `out_proj`. Each head is d_out // num_heads wide, so that the
    concatenated heads are d_out wide.

    Args:
        d_in: width of an input token.
        d_out: width of an output token, over all heads.
        num_heads: number of heads; divides d_out.
        causal: whether each token attends only to itself and to earlier ones.
        dropout: probability in [0, 1) of dropping an attention weight, in training only.
        bias: whether the projections have a bias.
        out_proj: whether the concatenated heads are projected by W_O; if not, `out_proj` is None.

    Raises:
        ValueError: a size below 1, d_out not divisible by num_heads, dropout outside [0, 1).
        TypeError: a size that is not an integer.

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.2.

    Example:
        >>> wrapper = MultiHeadAttentionWrapper(3, 4, num_heads=2)
        >>> wrapper(torch.randn(1, 6, 3)).shape
        torch.Size([1, 6, 4])
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        num_heads: int,
        *,
        causal: bool = True,
        dropout: float = 0.0,
        bias: bool = False,
        out_proj: bool = True,
    ) -> None:
        super().__init__()
        check_positive(d_in=d_in, d_out=d_out, num_heads=num_heads)
        check_divisible("d_out", d_out, "num_heads", num_heads)
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.heads = nn.ModuleList(
            SingleHeadAttention(d_in, self.head_dim, causal=causal, dropout=dropout, bias=bias)
            for _ in range(num_heads)
        )
        self.out_proj = nn.Linear(d_out, d_out, bias=bias) if out_proj else None

    def forward(
        self, x: Tensor, *, keep: Tensor | None = None, return_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Run every head on the same x and concatenate their outputs.

        Args:
            x: (batch, token, d_in).
            keep: bool, True = may attend, broadcasts to (batch, head, query, key); combined with
                the causal mask by `&`.
            return_weights: whether to return the attention weights too.

        Returns:
            output (batch, token, d_out), or (output, weights) with attention weights (batch, head, query, key).

        Raises:
            ValueError, TypeError: x or keep does not fit; the message says why.
        """
        first: SingleHeadAttention = self.heads[0]  # pyright: ignore[reportAssignmentType]  # a ModuleList names no type
        check_input(x, first.q_proj)
        batch, num_tokens, _ = x.shape
        keep_by_head = [keep] * self.num_heads
        if keep is not None:
            check_keep(keep, (batch, self.num_heads, num_tokens, num_tokens), x.device)
            if keep.dim() > 2 and keep.shape[-3] > 1:  # a mask of its own for each head
                keep_by_head = keep.split(1, dim=-3)  # (b, h, q, k) -> h times (b, 1, q, k)

        outputs, weights = zip(
            *(
                head(x, keep=head_keep, return_weights=True)
                for head, head_keep in zip(self.heads, keep_by_head, strict=True)
            ),
            strict=True,
        )
        output = torch.cat(outputs, dim=-1)  # h times (b, t, d) -> (b, t, h * d)
        if self.out_proj is not None:
            output = self.out_proj(output)  # (b, t, h * d) -> (b, t, d_out)
        return (output, torch.cat(weights, dim=1)) if return_weights else output  # h times (b, 1, q, k) -> (b, h, q, k)
