"""A learned attention sink: one more logit per head, which takes part in softmax and is then dropped."""

from __future__ import annotations

import torch
from torch import Tensor


def softmax_with_sink(scores: Tensor, sink_logits: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Softmax over the keys and one more logit per head, whose probability goes to no key.

        weights[k] = exp(scores[k]) / (exp(sink_logit) + sum over all keys j of exp(scores[j]))

    A row sums to less than 1, so that a head can attend to nothing, where it would otherwise put its attention on the
    first tokens, whatever these are. As a logit of -inf does nothing, this is softmax with one more degree of freedom.

    Args:
        scores: (batch, head, query, key), masked with -inf or the lowest finite value.
        sink_logits: (head,), learned.
        dtype: the dtype that softmax runs in; that of the scores if None.

    Returns:
        Attention weights (batch, head, query, key), in `dtype`.

    Raises:
        ValueError: sink_logits that are not (head,), or on a different device.
        TypeError: sink_logits that are not a floating-point tensor.

    Source: OpenAI, "gpt-oss-120b & gpt-oss-20b Model Card", 2025, section 2.2, Architecture. In Xiao et
    al., "Efficient Streaming Language Models with Attention Sinks", 2023, section 3.3, the learned sink is a token.

    Example:
        >>> softmax_with_sink(torch.zeros(1, 1, 1, 3), torch.zeros(1))
        tensor([[[[0.2500, 0.2500, 0.2500]]]])
    """
    if not isinstance(sink_logits, Tensor) or not sink_logits.is_floating_point():
        kind = sink_logits.dtype if isinstance(sink_logits, Tensor) else type(sink_logits).__name__
        raise TypeError(f"sink_logits must be a floating-point tensor, got {kind}.")
    batch, num_heads, query_len, _ = scores.shape
    if tuple(sink_logits.shape) != (num_heads,):
        raise ValueError(
            f"sink_logits must be (head,) = ({num_heads},), one per query head, got the shape "
            f"{tuple(sink_logits.shape)}."
        )
    if sink_logits.device != scores.device:
        raise ValueError(
            f"sink_logits are on {sink_logits.device}, but the queries are on {scores.device}: call "
            f"sink_logits.to({str(scores.device)!r})."
        )
    sinks = sink_logits.to(scores.dtype)[:, None, None].expand(batch, -1, query_len, 1)  # (h) -> (b, h, q, 1)
    with_sink = torch.cat([scores, sinks], dim=-1).softmax(dim=-1, dtype=dtype)
    return with_sink[:, :, :, :-1]  # the sink has no value, so its column is dropped
