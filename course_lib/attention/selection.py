"""Selected keys: each query attends to the few keys that a cheap score ranks highest, as in DeepSeek-V3.2."""

from __future__ import annotations

import torch
from torch import Tensor

from .checks import check_keep, check_positive


def index_scores(queries: Tensor, keys: Tensor, head_weights: Tensor) -> Tensor:
    """The scores of an indexer, which says of each key how much a query is likely to need it.

        scores[b, q, k] = sum over heads j of head_weights[b, q, j] * relu(queries[b, j, q] . keys[b, k])

    All its heads share one key, and all heads of the attention share what it selects.

    Args:
        queries: of the indexer, (batch, index head, query, width).
        keys: of the indexer, (batch, key, width).
        head_weights: (batch, query, index head), computed from the query's token, any scale included.

    Returns:
        (batch, query, key).

    Raises:
        ValueError: shapes that do not fit each other.

    Source: DeepSeek-AI, "DeepSeek-V3.2: Pushing the Frontier of Open Large Language Models", 2025, equation 1.

    Example:
        >>> index_scores(torch.ones(1, 2, 3, 4), torch.ones(1, 5, 4), torch.ones(1, 3, 2)).shape
        torch.Size([1, 3, 5])
    """
    shapes = [tuple(one.shape) for one in (queries, keys, head_weights)]
    if [len(shape) for shape in shapes] != [4, 3, 3]:
        raise ValueError(
            "queries, keys and head_weights must be (batch, index head, query, width), (batch, key, width) and "
            f"(batch, query, index head), got the shapes {shapes[0]}, {shapes[1]} and {shapes[2]}."
        )
    batch, num_heads, query_len, width = shapes[0]
    if shapes[1][::2] != (batch, width) or shapes[2] != (batch, query_len, num_heads):
        raise ValueError(
            f"keys {shapes[1]} and head_weights {shapes[2]} do not fit queries {shapes[0]}: they must be "
            f"({batch}, key, {width}) and ({batch}, {query_len}, {num_heads})."
        )
    by_head = (queries @ keys[:, None].transpose(2, 3)).relu()  # (b, j, q, d) @ (b, 1, d, k) -> (b, j, q, k)
    return torch.einsum("bqj,bjqk->bqk", head_weights, by_head)


def select_keep(scores: Tensor, k: int, keep: Tensor | None = None) -> Tensor:
    """Each query may attend to the k keys with the highest scores, of those that keep allows.

    A row in which keep allows k keys or fewer is the row of keep itself: what was hidden stays hidden, however short
    the text is. Of equal scores, `torch.topk` decides.

    Args:
        scores: (batch, query, key), or any shape that ends so, such as (batch, head, query, key).
        k: number of keys for each query.
        keep: bool, True = may attend, broadcasts to scores, such as `causal_keep`; None allows all.

    Returns:
        bool, True = may attend, in the shape of scores. Scores of (batch, query, key) serve all heads: `[:, None]`.

    Raises:
        ValueError: a k below 1, scores of fewer than two axes, a keep that does not broadcast to them.
        TypeError: a k that is not an integer, a keep that is not bool.

    Source: DeepSeek-AI, "DeepSeek-V3.2: Pushing the Frontier of Open Large Language Models", 2025, section 2.1.

    Example:
        >>> select_keep(torch.tensor([[3.0, 1.0, 2.0]]), 2)
        tensor([[ True, False,  True]])
    """
    check_positive(k=k)
    if scores.dim() < 2:
        raise ValueError(f"scores must end in (query, key), got the shape {tuple(scores.shape)}.")
    if keep is not None:
        *outer, query_len, key_len = (1, 1, *scores.shape)[-4:] if scores.dim() < 4 else scores.shape
        check_keep(keep, (*outer, query_len, key_len), scores.device)
        scores = torch.where(keep, scores, -torch.inf)
    highest = scores.topk(min(k, scores.shape[-1]), dim=-1).indices  # (..., q, k)
    selected = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, highest, True)
    return selected if keep is None else selected & keep
