"""Draw the pictures that show a finding: weights beside the intended ones, all heads, or changes of layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torch import Tensor

from .measure import Attention, Run, SoftmaxPath, intended_logits

if TYPE_CHECKING:
    from course_lib.pictures import Picture


def picture_of_weights(
    attention: Attention, path: SoftmaxPath, intended: Callable[[], Tensor | None] | None = None
) -> Picture | None:
    """Draw the weights of head 0, beside the intended ones if these are known; None if they are not weights.

    Args:
        attention, path: of a run.
        intended: computes the logits (head, query, key) that the code should have, -inf where hidden, or None if they
            are not known; left out, they are the code's own with the right mask.
    """
    from course_lib.pictures import compare, heatmap

    weights = attention.weights[0, 0]
    if _are_no_weights(weights):
        return None
    tokens, logits = _token_labels(attention), intended_logits(attention, path) if intended is None else intended()
    if logits is None:
        return heatmap(weights.clamp(max=1), tokens)
    right = logits[0].softmax(-1).nan_to_num()
    return compare(weights.clamp(max=1), right, tokens, names=("your head 0", "attention"))


def picture_of_heads(attention: Attention) -> Picture | None:
    """Draw the weights of all heads side by side; None if they are not weights."""
    from course_lib.pictures import head_heatmaps

    weights = attention.weights[0]
    return None if _are_no_weights(weights) else head_heatmaps(weights.clamp(max=1), _token_labels(attention))


def picture_of_layout(run: Run) -> Picture | None:
    """Draw the code's own changes of layout as they ran; None if they can't be recorded."""
    from course_lib.pictures import layout_steps
    from course_lib.recorder import record

    try:
        return layout_steps(record(lambda x: run.subject.call(run.subject.code, x), run.x))
    except (ValueError, TypeError, RuntimeError):
        return None


def _are_no_weights(weights: Tensor) -> bool:
    return bool((weights < 0).any() or (weights > 1 + 1e-9).any())


def _token_labels(attention: Attention) -> list[str]:
    """Return the words if they fit the run that was measured, else the tokens' numbers, which need little room."""
    words, num_keys = attention.options.words, attention.weights.shape[-1]
    return [*words] if len(words) == num_keys else [str(number) for number in range(num_keys)]
