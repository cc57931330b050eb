"""Infer what the elements of a path belong to from the shapes that the code gave them."""

import torch
from torch import Tensor

from course_lib.pictures.coordinates import Coordinates, axes_by_head, axes_in_width

from .path import LayoutPath, LayoutState


def coordinates_of(path: LayoutPath, num_heads: int | None = None, num_tokens: int | None = None) -> Coordinates:
    """Infer the coordinates of a path's elements; each of several sources is a head, or another part to be joined.

    num_heads is the number of heads in the width of the source, and num_tokens distinguishes (token, head) from
    (head, token); both are None if unknown.
    """
    path = path.whole
    if len(path.sources) != 1:
        read = [_of_part(source, part, num_tokens) for part, source in enumerate(path.sources)]
        axes = [torch.cat([part.flatten() for part in parts]) for parts in zip(*read, strict=True)]
        return Coordinates.of(torch.cat([source.elements.flatten() for source in path.sources]), axes)
    state = _most_telling(path, num_tokens)
    if len(state.shape) > 3:
        return Coordinates.of(state.elements, _by_head(state, num_tokens))
    source = path.sources[0]
    return Coordinates.of(source.elements, _in_width(source, path.states, num_heads))


def _most_telling(path: LayoutPath, num_tokens: int | None) -> LayoutState:
    """Return the tensor whose shape identifies the elements: the source, or the first to separate tokens and heads.

    A source (batch, kv head, folded queries, head_dim) does not identify them until it is unfolded.
    """
    source = path.sources[0]
    if len(source.shape) <= 3 or num_tokens is None:
        return source
    telling = [state for state in path.all_states if len(state.shape) > 3 and num_tokens in state.shape[-3:-1]]
    return telling[0] if telling else source


def _by_head(state: LayoutState, num_tokens: int | None) -> tuple[Tensor, ...]:
    """Return coordinates in (batch, head, token, head_dim), or (batch, token, head, head_dim) if num_tokens says so."""
    return axes_by_head(state.shape, token_first=num_tokens == state.shape[-3] != state.shape[-2])


def _of_part(source: LayoutState, part: int, num_tokens: int | None) -> tuple[Tensor, ...]:
    """Return coordinates in one part of a `cat` or `stack`, which is one head unless it has an axis of heads."""
    if len(source.shape) > 3:
        return _by_head(source, num_tokens)
    sample, token, head, column = axes_in_width(source.shape)
    return sample, token, torch.full_like(head, part), column


def _in_width(source: LayoutState, states: tuple[LayoutState, ...], num_heads: int | None) -> tuple[Tensor, ...]:
    """Return coordinates in (batch, token, width), where the width may hold several heads."""
    first = states[0].shape if states else ()
    if len(source.shape) == 3 and len(first) == 4 and first[2:] == source.shape[1:] and first[0] != source.shape[0]:
        return axes_by_head(first)  # the source was split into (batch * head, token, head_dim)
    return axes_in_width(source.shape, *_heads_in_width(source, states, num_heads))


def _heads_in_width(
    source: LayoutState, states: tuple[LayoutState, ...], num_heads: int | None
) -> tuple[int, int | None]:
    """Return the number of heads in a source's last axis and their width, None if it follows from the number."""
    width = max(source.shape[-1], 1) if source.shape else 1
    if num_heads is not None and width % num_heads == 0:
        return num_heads, None
    before = len(source.shape) - 1  # number of axes before the width
    for state in states:
        head_dim = state.shape[-1] if state.shape else 1
        if len(state.shape) <= len(source.shape) or head_dim >= width or width % max(head_dim, 1):
            continue
        between = state.shape[before:-1]
        if state.shape[:before] == source.shape[:before]:  # the width was split, as it should be
            declared = getattr(state.step.call.module, "num_heads", None) if state.step else None
            return declared if declared in between else between[-1], head_dim
        return width // head_dim, head_dim  # other axes were split: the wrong view
    return 1, None
