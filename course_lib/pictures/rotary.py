"""Rotary positions as dials: each pair of numbers is an arrow, and the word's place turns it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .blocks import plain_numbers
from .drawing import FOLLOW, INK, LINE, QUIET, Drawing
from .memory.numbers import clip
from .picture import Picture
from .products import check_words

MOST_TOKENS, MOST_PAIRS = 8, 6
RADIUS, SECTOR = 30, 16  # pixels of a dial, and of the pie that shows the turn
LEFT, ACROSS, DOWN = 130, 84, 92  # pixels of a row's name, and from a dial to its neighbours
TURN = "#BFDDF2"
LENGTHS = 0.01  # relative: the rounding of 16-bit numbers is smaller
STEADY = 1.0  # degrees by which the steps of one pair may differ, for the same reason


def rotary(
    before: Tensor,
    after: Tensor,
    words: Sequence[str] | None = None,
    *,
    pairs: str = "halves",
    title: str | None = None,
) -> Picture:
    """Draw each pair of numbers of each token as an arrow, before and after it was turned.

    Nothing is believed: angles and lengths are measured on the two tensors, so a rotation of your own is drawn as it
    is. An angle is measured counter-clockwise, up to full turns: from 0 to 360 degrees.

    Args:
        before: queries or keys of one head, (token, head_dim): 2 to 8 tokens, 12 numbers at most.
        after: the same, turned.
        words: labels of the tokens.
        pairs: which two numbers are one pair: "halves" (i and i + head_dim / 2) or "neighbours" (2 i and 2 i + 1).
        title: stands above.

    Returns:
        Picture.

    Raises:
        ValueError: shapes that differ or are too large, an odd head_dim, words that don't fit, numbers that aren't
            finite, pairs of another name.
        TypeError: what isn't a tensor.

    Example:
        >>> rotary(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), ("a", "b"))
        Pair 0, numbers 0 and 1, is turned: a 0°, b 90°.
        Pair 0 turns by 90.0° from word to word; no arrow changes its length.
    """
    arrows, turned = _arrows(before, "before", pairs), _arrows(after, "after", pairs)  # (pair, token, 2)
    if arrows.shape != turned.shape:
        raise ValueError(f"before {tuple(before.shape)} and after {tuple(after.shape)} must have one shape.")
    num_pairs, num_tokens, _ = arrows.shape
    words = check_words(words, num_tokens)
    angles = _angles(arrows, turned)  # (pair, token), degrees
    length, new_length = arrows.norm(dim=-1), turned.norm(dim=-1)  # (pair, token)
    changed = int(((new_length - length).abs() > LENGTHS * length).sum())
    kept = f"{changed} of {length.numel()} arrows change their length" if changed else "no arrow changes its length"

    scale = 0.9 * RADIUS / torch.maximum(length, new_length).clamp(min=1e-30)[..., None]  # (pair, token, 1)
    hands, turned_hands = (arrows * scale).tolist(), (turned * scale).tolist()

    drawing, said = _Dials(), []
    drawing.text(0, 16, title or "Each pair of numbers is turned by the word's place", size=16, bold=True)
    how = "Dashed: before. Solid: after. Blue: the turn, measured. Each dial has a scale of its own."
    drawing.text(0, 36, how, color=QUIET)
    middles = [LEFT + token * ACROSS + RADIUS for token in range(num_tokens)]
    for x, word in zip(middles, words, strict=True):
        drawing.text(x, 66, clip(word, ACROSS - 6, bold=True), bold=True, anchor="middle")
    for pair, row in enumerate(angles):
        y = 78 + pair * DOWN + RADIUS
        numbers = (pair, pair + num_pairs) if pairs == "halves" else (2 * pair, 2 * pair + 1)
        name = f"numbers {numbers[0]} and {numbers[1]}"
        drawing.text(0, y - 10, f"pair {pair}", bold=True)
        drawing.text(0, y + 6, name, size=11, color=QUIET)
        drawing.text(0, y + 22, _rate(row).replace("°", "° a word"), size=11, color=QUIET)
        for token, (x, angle) in enumerate(zip(middles, row.tolist(), strict=True)):
            drawing.dial(x, y, hands[pair][token], turned_hands[pair][token], angle)
            drawing.text(x, y + RADIUS + 16, _degrees(angle), anchor="middle")
        turns = [f"{word} {_degrees(angle)}" for word, angle in zip(words, row.tolist(), strict=True)]
        said.append(f"Pair {pair}, {name}, is turned: {', '.join(turns)}.")
    if changed:
        drawing.text(0, 78 + num_pairs * DOWN + 12, f"✗ {kept}: no rotation does that.", color=FOLLOW)
    rates = [f"pair {pair} {_rate(row)}" for pair, row in enumerate(angles)]
    rates[0] = f"Pair 0 turns {_rate(angles[0])} from word to word"
    return Picture(svg=drawing.svg(), words="\n".join(said), caption=f"{', '.join(rates)}; {kept}.")


class _Dials(Drawing):
    """A drawing with dials; what comes from data has three decimals and blanks around, to be compared as numbers."""

    def dial(self, x: float, y: float, before: tuple[float, float], after: tuple[float, float], turn: float) -> None:
        """Put a circle, two hands given in pixels upwards, and a pie of the degrees from the first to the second."""
        start = math.atan2(before[1], before[0])
        if turn > 0.5:
            edges = [(x + SECTOR * math.cos(a), y - SECTOR * math.sin(a)) for a in (start, start + math.radians(turn))]
            (one, two), (three, four) = edges
            arc = f"A {SECTOR} {SECTOR} 0 {int(turn > 180)} 0 {three:.3f} {four:.3f}"
            self._parts.append(f'<path d="M {x:g} {y:g} L {one:.3f} {two:.3f} {arc} Z" fill="{TURN}"/>')
        self._parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{RADIUS}" fill="none" stroke="{LINE}"/>')
        for (right, up), look in (
            (before, f'stroke="{QUIET}" stroke-width="1.5" stroke-dasharray="4 3"'),
            (after, f'stroke="{INK}" stroke-width="2.5"'),
        ):
            self._parts.append(f'<path d="M {x:g} {y:g} L {x + right:.3f} {y - up:.3f}" {look}/>')
        self._parts.append(f'<circle cx="{x + after[0]:.3f}" cy="{y - after[1]:.3f}" r="3.5" fill="{INK}"/>')
        self._grow(x + RADIUS, y + RADIUS)


def _arrows(tensor: Tensor, name: str, pairs: str) -> Tensor:
    """The pairs of a (token, head_dim) tensor: (pair, token, 2)."""
    table = plain_numbers(tensor, name, "token head_dim")
    num_tokens, head_dim = table.shape
    if head_dim % 2 or not 2 <= num_tokens <= MOST_TOKENS or head_dim > 2 * MOST_PAIRS:
        raise ValueError(
            f"{name} must be (token, head_dim) with 2 to {MOST_TOKENS} tokens and an even head_dim of at most "
            f"{2 * MOST_PAIRS}, got {tuple(table.shape)}: give a part of it."
        )
    if not table.isfinite().all():
        raise ValueError(f"{name} holds nan or inf, which has no angle: give finite numbers.")
    if pairs not in ("halves", "neighbours"):
        raise ValueError(f"pairs must be 'halves' or 'neighbours', got {pairs!r}.")
    split = (2, head_dim // 2) if pairs == "halves" else (head_dim // 2, 2)
    table = table.unflatten(1, split)  # (t, d) -> (t, 2, pair) or (t, pair, 2)
    return table.permute(2, 0, 1) if pairs == "halves" else table.transpose(0, 1)


def _angles(arrows: Tensor, turned: Tensor) -> Tensor:
    """Degrees from each arrow to the turned one, from 0 to below 360; nan where one has no length."""
    cross = arrows[..., 0] * turned[..., 1] - arrows[..., 1] * turned[..., 0]
    angles = torch.rad2deg(torch.atan2(cross, (arrows * turned).sum(dim=-1))) % 360
    angles[(angles > 359.95) | (angles < 0.05)] = 0.0  # what rounding leaves on either side of a full turn is no turn
    return angles.masked_fill((arrows.norm(dim=-1) == 0) | (turned.norm(dim=-1) == 0), math.nan)


def _rate(angles: Tensor) -> str:
    """How a pair turns from token to token: by 57.3°, unevenly."""
    steps = angles.diff() % 360
    steps = steps[~steps.isnan()]
    if not len(steps):
        return "by no angle"
    apart = (steps - steps[0] + 180) % 360 - 180
    return f"by {steps[0].item():.1f}°" if apart.abs().max() < STEADY else "unevenly"


def _degrees(angle: float) -> str:
    if math.isnan(angle):
        return "no angle"
    return f"{angle:.1f}°" if 0.05 < angle < 9.95 else f"{angle:.0f}°"
