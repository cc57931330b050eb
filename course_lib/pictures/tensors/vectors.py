"""Draw vectors of width 2 as arrows or points in the plane."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.checks import check_drawable, token_labels
from course_lib.pictures.drawing_width import is_narrow
from course_lib.pictures.grid import card, row
from course_lib.pictures.picture import Picture
from course_lib.pictures.style import STYLE
from course_lib.pictures.text import minus, number_text

from .plane import COLORS, End, Plane, Vector, convex_hull, legend_of

MOST_VECTORS = 14  # in one picture; the labels of more would not fit
AXES = "number 0", "number 1"
HOW_TO_READ = "{} of each vector counts to the right, {} upwards; both axes have the same scale."


def draw_vectors(
    vectors: Mapping[str, Tensor],
    *,
    words: Sequence[object] | None = None,
    points: bool = False,
    title: str | None = None,
    axes: tuple[str, str] = AXES,
) -> Picture:
    """Draw vectors of width 2 as arrows from the origin, or as points.

    If there is one table and one single vector, the caption compares the two: arrows by their angles, points by their
    distances.

    Args:
        vectors: name -> (token, 2), a table whose vectors are labelled with words, or (2,), a single vector that is
            labelled with its name and drawn larger. Up to three names and 14 vectors.
        words: labels of the tokens of each table; "token 0", "token 1", ... if None.
        points: whether to draw points instead of arrows.
        title: the title above the drawing; the names if None.
        axes: what the first and the second number of each vector are called.

    Raises:
        ValueError: If a shape is a different one, there are too many vectors or none, an element isn't finite, all
            are zero, or words do not fit.
        TypeError: If vectors isn't a mapping of tensors.

    Example:
        >>> keys, query = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([1.0, 0.0])
        >>> print(draw_vectors({"key": keys, "query": query}, words=("a", "b")).caption)
        Angle between the query and each key: a 0°, b 90°. The smallest: "a".
    """
    if not isinstance(vectors, Mapping):
        raise TypeError(f"vectors must be a mapping, name -> tensor, got {type(vectors).__name__}.")
    tables = {str(name): _table(f"vectors[{name!r}]", tensor) for name, tensor in vectors.items()}
    count = sum(table.numel() // 2 for table in tables.values())
    if not 0 < len(tables) <= len(COLORS) or count > MOST_VECTORS:
        raise ValueError(
            f"vectors has {len(tables)} names and {count} vectors: draw 1 to {len(COLORS)} names and "
            f"{MOST_VECTORS} vectors at most."
        )
    if not any(table.any() for table in tables.values()):
        raise ValueError("vectors holds nothing but zeros, which have no direction: give at least one other vector.")
    labels = {name: token_labels(words, len(table)) for name, table in tables.items() if table.dim() == 2}
    return Picture.of(VectorScene(tables, labels, points, title or " and ".join(tables), axes))


@dataclass(frozen=True, eq=False)
class VectorScene:
    """Vectors in the plane: tables with a label per token, and single vectors."""

    tables: Mapping[str, Tensor]  # (token, 2) or (2,)
    labels: Mapping[str, Sequence[str]]  # of each table of several vectors
    points: bool
    title: str
    axes: tuple[str, str]

    @property
    def caption(self) -> str:
        single = [name for name, table in self.tables.items() if table.dim() == 1]
        if len(single) != 1 or len(self.labels) != 1:
            return self.how[0]
        (name, labels), alone = next(iter(self.labels.items())), self.tables[single[0]]
        table = self.tables[name]
        if self.points:
            distances = (table - alone).norm(dim=1)
            nearest = int(distances.argmin())
            return f'The {single[0]} is nearest to the {name} "{labels[nearest]}", {distances[nearest]:.2f} away.'
        angles = torch.rad2deg(torch.acos(torch.cosine_similarity(table, alone[None], dim=1).clamp(-1, 1)))
        smallest = labels[int(angles.argmin())]
        listed_angles = ", ".join(f"{label} {angle:.0f}°" for label, angle in zip(labels, angles.tolist(), strict=True))
        return f'Angle between the {single[0]} and each {name}: {listed_angles}. The smallest: "{smallest}".'

    @property
    def how(self) -> Sequence[str]:
        """Say how to read the plane, and what the dashed line is if there is one."""
        names = "".join(self.labels)
        around = f"The dashed line is the convex hull of the {names} points: no mix of them lies outside."
        right, up = self.axes
        counts = HOW_TO_READ.format(right[0].upper() + right[1:], up)
        return [counts, around] if self.hull else [counts]

    @property
    def hull(self) -> Sequence[Vector]:
        """The corners around the points of a table, for a single vector to lie within or outside; [] for arrows."""
        if not self.points or len(self.tables) != 2 or len(self.labels) != 1:
            return []
        return convex_hull(self.tables[next(iter(self.labels))].tolist())

    def describe(self) -> str:
        kind = "Points" if self.points else "Arrows from the origin"
        lines = [f"{kind}: {self.title}{'' if self.title.endswith(('.', '?', '!')) else '.'} {' '.join(self.how)}"]
        for name, table in self.tables.items():
            coordinates = [_coordinates(vector) for vector in table.reshape(-1, 2).tolist()]
            labels = self.labels.get(name, [""])
            points = ", ".join(f"{label} {pair}".strip() for label, pair in zip(labels, coordinates, strict=True))
            lines.append(f"{name}: {points}.")
        return "\n".join(lines)

    def draw(self) -> Canvas:
        ends = [
            End(x, y, label, group, name not in self.labels)
            for group, (name, table) in enumerate(self.tables.items())
            for (x, y), label in zip(table.reshape(-1, 2).tolist(), self.labels.get(name, [name]), strict=True)
        ]
        names = [
            legend_of(name, group, points=self.points) for group, name in enumerate(self.tables) if name in self.labels
        ]
        legend = row(names) if names else Canvas()
        plane = Plane(ends, self.axes, points=self.points, around=self.hull, narrow=is_narrow())
        if plane.crowded and is_narrow():
            plane = Plane(ends, self.axes, points=self.points, around=self.hull)
        return card(self.title, self.how, legend, plane, gap=STYLE.near)


def _coordinates(vector: Sequence[float]) -> str:
    return minus("({}, {})".format(*(number_text(number, decimals=True) for number in vector)))


def _table(name: str, tensor: object) -> Tensor:
    """Return a checked (token, 2) table or (2,) vector as float64 on the CPU."""
    table = check_drawable(tensor, name).cpu().to(torch.float64)
    if table.dim() not in (1, 2) or table.shape[-1] != 2:
        raise ValueError(f"{name} must be (token, 2) or (2,), got {tuple(table.shape)}: only a plane can be drawn.")
    if not table.isfinite().all():
        raise ValueError(f"{name} holds nan or inf, which has no place in the plane: give finite numbers.")
    return table
