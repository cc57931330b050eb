"""The course's own projections around third-party attention that takes queries, keys and values."""

from collections.abc import Callable

from torch import Tensor, nn


class Projected(nn.Module):
    """Multi-head attention around a core: (queries, keys, values), each (b, h, t, d) -> (b, h, t, d).

    Args:
        core: the attention.
        width: of x and of the output.
        num_heads: h; the width of a head is width // num_heads.
    """

    def __init__(self, core: Callable[..., Tensor], width: int, num_heads: int) -> None:
        super().__init__()
        self.core, self.num_heads = core, num_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        heads = (
            projection(x).view(batch, tokens, self.num_heads, -1).transpose(1, 2)  # (b, t, w) -> (b, h, t, d)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.o_proj(self.core(*heads).transpose(1, 2).reshape(batch, tokens, width))
