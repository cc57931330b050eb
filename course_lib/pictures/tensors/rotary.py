"""Draw rotary positions as dials: each pair of elements is an arrow, rotated according to the token's position."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import first_sample, token_labels
from course_lib.pictures.grid import card, column, label, row
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import ALERT, BOLD, SMALL_NOTE, STYLE, TextStyle

from .dial import LABEL, PITCH, Dial

MOST_TOKENS, MOST_PAIRS = 8, 6
TOLERANCE = 0.01  # relative to a length; above the rounding of float16 and bfloat16
STEADY = 1.0  # degrees by which the steps of a pair may differ, for the same reason
HOW_TO_READ = "Dashed: before. Solid: after. Blue: the rotation, measured. Each dial has a scale of its own."


def draw_rotary(
    before: Tensor,
    after: Tensor,
    *,
    words: Sequence[object] | None = None,
    pairs: str = "halves",
    title: str | None = None,
) -> Picture:
    """Draw each pair of elements of each token as an arrow, before and after its rotation.

    Angles and lengths are measured on the two tensors, so any rotation of your own is drawn as it is. Angles are
    measured counter-clockwise, from 0 to 360 degrees, ignoring full turns.

    Args:
        before: queries or keys of one head, (token, head_dim): 2 to 8 tokens, a head_dim of 12 at most.
        after: the same, rotated.
        words: labels of the tokens; "token 0", "token 1", ... if None.
        pairs: which two elements form a pair: "halves" (i and i + head_dim / 2) or "neighbours" (2 i and 2 i + 1).
        title: the title above the drawing.

    Raises:
        ValueError: If the shapes differ or are too large, head_dim is odd, words do not fit, an element isn't finite,
            or pairs has an unknown value.
        TypeError: If before or after isn't a tensor.

    Example:
        >>> before, after = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> draw_rotary(before, after, words=("a", "b"))
        Pair 0, elements 0 and 1, is rotated: a 0°, b 90°.
        Pair 0 rotates by 90.0° from token to token; no arrow changes its length.
    """
    arrows, rotated = _arrows(before, "before", pairs), _arrows(after, "after", pairs)
    if arrows.shape != rotated.shape:
        raise ValueError(f"before {tuple(before.shape)} and after {tuple(after.shape)} must have the same shape.")
    num_pairs, num_tokens, _ = arrows.shape
    elements = _in_pairs(torch.arange(2 * num_pairs)[None], pairs)[:, 0]  # (pair, 2)
    labels = token_labels(words, num_tokens)
    title = title or "Each pair of elements is rotated by the token's position"
    return Picture.of(RotaryScene(arrows, rotated, elements.tolist(), labels, title))


@dataclass(frozen=True, eq=False)
class RotaryScene:
    """Arrows before and after a rotation."""

    arrows: Tensor  # (pair, token, 2)
    rotated: Tensor
    elements: Sequence[Sequence[int]]  # the two indices of each pair
    words: Sequence[str]
    title: str

    @property
    def angles(self) -> Tensor:
        """Degrees from each arrow to the rotated one, (pair, token), from 0 to below 360; nan if either is zero."""
        arrows, rotated = self.arrows, self.rotated
        cross = arrows[..., 0] * rotated[..., 1] - arrows[..., 1] * rotated[..., 0]
        angles = torch.rad2deg(torch.atan2(cross, (arrows * rotated).sum(dim=-1))) % 360
        angles[(angles > 359.95) | (angles < 0.05)] = 0.0  # rounding, on either side of a full turn
        return angles.masked_fill((arrows.norm(dim=-1) == 0) | (rotated.norm(dim=-1) == 0), math.nan)

    @property
    def changed(self) -> str:
        """Say how many arrows change their length; "" if none does."""
        before, after = self.arrows.norm(dim=-1), self.rotated.norm(dim=-1)  # (pair, token)
        changed = int(((after - before).abs() > TOLERANCE * before).sum())
        return f"{changed} of {before.numel()} arrows change their length" if changed else ""

    @property
    def caption(self) -> str:
        first, *others = (_step(angles) for angles in self.angles)
        rates = [f"Pair 0 rotates {first} from token to token"]
        rates += [f"pair {pair} {rate}" for pair, rate in enumerate(others, start=1)]
        return f"{', '.join(rates)}; {self.changed or 'no arrow changes its length'}."

    def describe(self) -> str:
        lines = []
        for pair, ((first, second), angles) in enumerate(zip(self.elements, self.angles.tolist(), strict=True)):
            rotations = ", ".join(f"{word} {_degrees(angle)}" for word, angle in zip(self.words, angles, strict=True))
            lines.append(f"Pair {pair}, elements {first} and {second}, is rotated: {rotations}.")
        return "\n".join(lines)

    def draw(self) -> Canvas:
        """Draw a row of dials per pair, with a column per token."""
        rows = [row([_column("", BOLD, LABEL), *(_column(word, BOLD) for word in self.words)], gap=0)]
        for pair, angles in enumerate(self.angles):
            first, second = self.elements[pair]
            rate = _step(angles).replace("°", "° per token")
            texts = f"elements {first} and {second}", rate
            lines = label(f"pair {pair}", BOLD), *(label(text, SMALL_NOTE) for text in texts)
            name = column(lines, STYLE.tight)
            name.width = LABEL
            arrows = zip(self.arrows[pair].tolist(), self.rotated[pair].tolist(), angles.tolist(), strict=True)
            rows.append(row([name, *(Dial(*arrow, _degrees(arrow[2])) for arrow in arrows)], gap=0))
        wrong = f"✗ {self.changed}: no rotation does that." if self.changed else ""
        return card(self.title, [HOW_TO_READ], *rows, label(wrong, ALERT), gap=STYLE.near)


def _column(text: str, style: TextStyle, width: float = PITCH) -> Canvas:
    canvas = Canvas()
    canvas.text(width / 2, style.size, style.clip(text, width - STYLE.near), style, anchor="middle")
    canvas.width, canvas.height = width, style.size
    return canvas


def _step(angles: Tensor) -> str:
    """Describe the rotation of a pair from token to token: by 57.3°, unevenly."""
    steps = angles.diff() % 360
    steps = steps[~steps.isnan()]
    if not len(steps):
        return "by no angle"
    spread = (steps - steps[0] + 180) % 360 - 180
    return f"by {steps[0].item():.1f}°" if spread.abs().max() < STEADY else "unevenly"


def _degrees(angle: float) -> str:
    """Write an angle in degrees, with a decimal if it is small: 0°, 2.7°, 57°."""
    if math.isnan(angle):
        return "no angle"
    return f"{angle:.1f}°" if 0.05 < angle < 9.95 else f"{angle:.0f}°"


def _arrows(tensor: Tensor, name: str, pairs: str) -> Tensor:
    """Check a (token, head_dim) tensor and return its pairs, (pair, token, 2)."""
    table = first_sample(tensor, name, "token head_dim")
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
    return _in_pairs(table, pairs)


def _in_pairs(table: Tensor, pairs: str) -> Tensor:
    if pairs == "halves":
        return table.unflatten(1, (2, -1)).permute(2, 0, 1)
    return table.unflatten(1, (-1, 2)).transpose(0, 1)
