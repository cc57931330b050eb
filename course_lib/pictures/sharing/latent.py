"""Draw the two forms of latent attention: keys projected up from the latents, and queries that meet the latents."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.attention import LatentAttention
from course_lib.pictures.canvas import Canvas
from course_lib.pictures.columns import Box
from course_lib.pictures.grid import arrow, column, flow, row
from course_lib.pictures.picture import Panels, Picture
from course_lib.pictures.style import HEADING, NOTE, PLAIN, SMALL, STYLE, head_color
from course_lib.pictures.table import Table

MOST_HEADS, MOST_WIDTH = 8, 16


@dataclass(frozen=True)
class Vectors:
    """The vectors of one token: one for each head, or one for all."""

    name: str
    width: int
    heads: int  # 0 for one that all heads share
    kept: bool = False  # in the cache

    def describe(self) -> str:
        many = f"{self.heads} times {self.width}" if self.heads else str(self.width)
        return f"{self.name} ({many}{', cached' if self.kept else ''})"

    def draw(self) -> Canvas:
        colors = [head_color(head) for head in range(self.heads)] or [PLAIN]
        return Table(
            [[("", color)] * self.width for color in colors],
            title=self.name,
            notes=[f"{self.heads} x {self.width}" if self.heads else f"{self.width} for all heads"],
            outlined=[Box(0, 0, len(colors), self.width)] if self.kept else [],
            cell=STYLE.strip_cell,
            row_style=SMALL,
        ).draw()


@dataclass(frozen=True)
class LatentForm:
    """One of the two forms: lines of vectors, each with the name of the layer, or the sign, that stands before it."""

    name: str
    note: str
    lines: Sequence[Sequence[tuple[str, Vectors]]]

    def describe(self) -> str:
        lines = [", ".join(f"{by} {one.describe()}".strip() for by, one in line) for line in self.lines]
        return f"{self.name}: {'; '.join(lines)}."

    def draw(self) -> Canvas:
        rows: list[Canvas] = []
        for line in self.lines:
            parts: list[Canvas | str] = []
            for by, one in line:
                parts += ([by] if len(by) == 1 else [arrow(by)]) if by else []
                parts.append(one.draw())
            rows.append(row(parts))
        head = flow([(HEADING.clip(self.name, STYLE.width / 2), HEADING), (self.note, NOTE)])
        return column([head, *rows], STYLE.near)


def draw_latent(layer: LatentAttention, x: Tensor) -> Picture:
    """Draw what latent attention makes of one token in its two forms, and what of it is kept in a cache.

    The two forms must give the same output for x, which is checked in float64.

    Args:
        layer: of at most 8 heads and 16 numbers in a latent or a head.
        x: (batch, token, d_model).

    Raises:
        ValueError: If the layer is too large to be drawn, or its two forms differ for x.
        TypeError: If the layer is no LatentAttention.
    """
    if not isinstance(layer, LatentAttention):
        raise TypeError(f"layer must be a LatentAttention, got {type(layer).__name__}.")
    heads, latent, width, value = layer.num_heads, layer.latent_dim, layer.head_dim, layer.value_dim
    if heads > MOST_HEADS or max(latent, width, value) > MOST_WIDTH:
        raise ValueError(
            f"the layer has {heads} heads, latents of {latent} and heads of {max(width, value)} numbers: give "
            f"one with at most {MOST_HEADS} heads and {MOST_WIDTH} numbers."
        )
    _check_equal(layer, x)
    kept = Vectors("latent", latent, 0, True)
    up = LatentForm(
        "Project the latent up",
        "and go on as multi-head attention",
        [
            [("", kept), ("k_proj", Vectors("keys", width, heads)), ("·", Vectors("queries", width, heads))],
            [("", kept), ("v_proj", Vectors("values", value, heads))],
        ],
    )
    absorbed = LatentForm(
        "Absorb",
        "and go on as multi-query attention",
        [
            [("", Vectors("queries", width, heads)), ("k_proj", Vectors("absorbed", latent, heads)), ("·", kept)],
            [("", Vectors("mixed latents", latent, heads)), ("v_proj", Vectors("context", value, heads))],
        ],
    )
    caption = f"Both give the same output, checked in float64. In the cache: {latent} numbers of the latent"
    caption += f", and {layer.rotary_dim} of a rotary key, which is not drawn."
    note = "A cell is one number. The outlined vector is cached; a colour is a head."
    return Picture.of(Panels([up, absorbed], "Two orders of one product", note, caption))


def _check_equal(layer: LatentAttention, x: Tensor) -> None:
    double: Callable[..., Tensor] = LatentAttention(
        layer.q_proj.in_features,
        layer.num_heads,
        latent_dim=layer.latent_dim,
        head_dim=layer.head_dim,
        rotary_dim=layer.rotary_dim,
        value_dim=layer.value_dim,
    ).double()
    double.load_state_dict(layer.state_dict())  # pyright: ignore[reportFunctionMemberAccess]
    x = x.detach().double().cpu()
    with torch.no_grad():
        if not torch.allclose(double(x), double(x, absorb=True)):
            raise ValueError("the two forms of the layer differ for x: give one whose weights are finite.")
