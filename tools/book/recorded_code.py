"""The functions of the book's recordings that no lesson's class holds."""

from torch import Tensor


def split_and_wrong_view(queries: Tensor) -> tuple[Tensor, Tensor]:
    """Split a width of two heads in the right way, and by a view to the same shape, which scrambles it."""
    batch, num_tokens, width = queries.shape
    split = queries.view(batch, num_tokens, 2, width // 2)  # (b, t, h * d) -> (b, t, h, d)
    by_head = split.transpose(1, 2)  # (b, t, h, d) -> (b, h, t, d)
    wrong = queries.view(batch, 2, num_tokens, width // 2)  # the same shape, other rows
    return by_head, wrong
