"""Draw (query, key) tables with seaborn: colours, texts, hatched cells, token labels and colour bars."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from course_lib.pictures.drawing_width import on_a_phone
from course_lib.pictures.figures import SMALL, USUAL, figure_svg, in_lines, inch_axes, inches, text_height, write_title
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import LINE, PLAIN

from .pattern import MOST_WITH_VALUES, Pattern, Scale
from .pattern_layout import AXIS_LABEL, GAP, PatternLayout, figure_width, short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

BAR = 2.4, 0.1  # width and height of a colour bar in inches
BAR_ROOM = 0.55  # height in inches of a colour bar with ticks and label
BLACK_WINS = 0.18  # luminance of a colour on which black and white are equally readable


def patterns_picture(
    patterns: Sequence[Pattern], title: str, description: str, caption: str, narrowest: float | None = None
) -> Picture:
    """Draw tables of one shape with the same labels; narrowest is as in `PatternLayout.of`."""
    texts = [title, *(text for pattern in patterns for text in (*pattern.queries, *pattern.keys, pattern.title))]
    draw = partial(figure_svg, partial(_draw_patterns, patterns, title, narrowest), texts)
    svg, portrait = draw(), ""
    with on_a_phone():
        if len(patterns) > 1 and PatternLayout.of(patterns, narrowest).is_readable(patterns[0]):
            portrait = draw()
    return Picture(svg=svg, portrait=portrait, description=description, caption=caption)


def _draw_patterns(patterns: Sequence[Pattern], title: str, narrowest: float | None, figure: Figure) -> None:
    """Draw tables row by row, with a title above all and the colour bar of each scale below its last table."""
    layout = PatternLayout.of(patterns, narrowest)
    whole = max(figure_width() / 2, layout.whole_width(patterns[: layout.columns]))
    top = write_title(figure, title, whole)
    for first in range(0, len(patterns), layout.columns):
        row = patterns[first : first + layout.columns]
        titles = [in_lines(pattern.title, layout.slot) for pattern in row]
        top += max(map(text_height, titles)) + GAP
        scales = _draw_row(row, titles, layout, top, figure)
        top += layout.height + layout.column_room + AXIS_LABEL + GAP
        later = {pattern.scale for pattern in patterns[first + layout.columns :]}
        bars = {scale: axes for scale, axes in scales.items() if scale.label and scale not in later}
        for scale, (ax, left) in bars.items():
            width = min(BAR[0], max(layout.width, BAR[0] / 2))
            _draw_bar(ax, scale, inch_axes(figure, left, top, width, BAR[1]))
        top += BAR_ROOM if bars else 0


def _draw_row(
    row: Sequence[Pattern], titles: Sequence[str], layout: PatternLayout, top: float, figure: Figure
) -> dict[Scale, tuple[Axes, float]]:
    """Draw tables side by side; return the axes and x offset of the first table of each scale."""
    left = AXIS_LABEL
    scales: dict[Scale, tuple[Axes, float]] = {}
    for pattern, title in zip(row, titles, strict=True):
        left += layout.row_room * pattern.label_rows
        ax = inch_axes(figure, left + (layout.slot - layout.width) / 2, top, layout.width, layout.height)
        _draw_cells(ax, pattern, layout)
        _draw_labels(ax, pattern, layout)
        ax.set_title(title, size=USUAL)
        ax.set_ylabel("query" if pattern is row[0] else "")
        scales.setdefault(pattern.scale, (ax, left))
        left += layout.slot + GAP
    return scales


def _draw_cells(ax: Axes, pattern: Pattern, layout: PatternLayout) -> None:
    import seaborn  # takes a second, as it needs pandas
    from matplotlib.colors import LinearSegmentedColormap

    scale, numbers = pattern.scale, pattern.with_values
    texts = np.vectorize(scale.write, otypes=[str])(pattern.values)
    fitting = USUAL * 0.8 * layout.cell / max(map(inches, texts.flat))
    seaborn.heatmap(
        pattern.values,
        ax=ax,
        mask=pattern.hidden,
        vmin=scale.low,
        vmax=scale.high,
        cmap=scale.colors if isinstance(scale.colors, str) else LinearSegmentedColormap.from_list("", scale.colors),
        cbar=False,
        annot=texts if numbers else False,
        annot_kws={"size": min(USUAL, fitting)},
        fmt="",
        linewidths=1 if numbers else 0,
        linecolor="white",
        xticklabels=False,
        yticklabels=False,
        rasterized=not numbers,  # one image instead of a path per cell
    )
    mesh = ax.collections[0]
    for number in ax.texts:  # black or white, whichever is more readable on its cell
        key, query = (int(edge) for edge in number.get_position())
        number.set_color("black" if _luminance(mesh.to_rgba(pattern.values[query, key])) > BLACK_WINS else "white")
    _hatch(ax, pattern.hidden)


def _draw_labels(ax: Axes, pattern: Pattern, layout: PatternLayout) -> None:
    every = layout.label_every
    rows, columns = (np.arange(0, size, every) + 0.5 for size in pattern.values.shape)
    ax.set_yticks(rows, [short(query) if pattern.label_rows else "" for query in pattern.queries[::every]])
    look = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"} if layout.rotated else {}
    ax.set_xticks(columns, [short(key) for key in pattern.keys[::every]], **look)
    ax.tick_params(length=0)
    ax.set_xlabel("key")


def _draw_bar(ax: Axes, scale: Scale, axes: Axes) -> None:
    bar = ax.figure.colorbar(ax.collections[0], cax=axes, orientation="horizontal", label=scale.label)
    bar.set_ticks(list(scale.ticks), labels=[scale.write_tick(tick) for tick in scale.ticks], size=SMALL)
    for colors in axes.collections:
        colors.set_rasterized(True)  # one small image instead of 256 rectangles
    axes.spines[:].set_visible(False)


def _hatch(ax: Axes, hidden: np.ndarray) -> None:
    """Hatch hidden cells, merging adjacent ones to avoid seams, and label rows in which everything is hidden."""
    from matplotlib.patches import Rectangle

    for query, row in enumerate(hidden):
        edges = np.flatnonzero(np.diff(row.astype(int), prepend=0, append=0))
        for first, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            strip = Rectangle((first, query), end - first, 1, facecolor=PLAIN, edgecolor=LINE, hatch="///")
            strip.set_linewidth(0)
            ax.add_patch(strip)
        if row.all() and len(row) <= MOST_WITH_VALUES:
            text = "sees nothing" if len(row) > 2 else "nothing"
            box = {"facecolor": PLAIN, "edgecolor": "none", "pad": 1}
            ax.text(len(row) / 2, query + 0.5, text, size=SMALL, ha="center", va="center", bbox=box)


def _luminance(color: ArrayLike) -> float:
    """Compute the relative luminance of an sRGB colour, as defined by WCAG."""
    color = np.asarray(color)
    red, green, blue = np.where(color <= 0.04045, color / 12.92, ((color + 0.055) / 1.055) ** 2.4)[:3]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
