"""Draw the course's own SVG pictures with matplotlib, which the preview pictures need as pixels."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from xml.etree import ElementTree

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Polygon, Rectangle

from course_lib.pictures.style import HIGHLIGHT, INK, QUIET

POINTS = 0.72  # points per pixel at 100 dots per inch
SVG = "{http://www.w3.org/2000/svg}"
COMMAND = re.compile(r"([MLHVhz])([^MLHVhz]*)")


@dataclass(frozen=True)
class Place:
    """Where the elements of a group are drawn, and in which text style."""

    x: float
    y: float
    scale: float
    style: str = ""  # the classes of `course_lib.pictures.canvas`

    def within(self, element: ElementTree.Element) -> "Place":
        """Return the place of what an element contains."""
        moved = re.match(r"translate\(([-.\d]+) ([-.\d]+)\)", element.get("transform", ""))
        dx, dy = (float(moved[1]), float(moved[2])) if moved else (0.0, 0.0)
        style = f"{self.style} {element.get('class', '')}"
        return replace(self, x=self.x + dx * self.scale, y=self.y + dy * self.scale, style=style)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return a point in pixels of the figure."""
        return self.x + x * self.scale, self.y + y * self.scale


def draw(axes: Axes, element: ElementTree.Element, place: Place) -> None:
    """Draw an element of a picture that `Canvas.svg` made, with all that it contains."""
    kind, inner = element.tag.removeprefix(SVG), place.within(element)
    if kind == "path":
        draw_path(axes, element, inner)
    elif kind == "rect" and element.get("rx") == "2":  # an outline; the other one is the card's
        draw_outline(axes, element, inner)
    elif kind == "text":
        for span in element.findall(f"{SVG}tspan") or [element]:
            draw_text(axes, span.text or "", inner.at(float(span.get("x", 0)), float(element.get("y", 0))), inner)
    else:
        for child in element:
            draw(axes, child, inner)


def draw_path(axes: Axes, element: ElementTree.Element, place: Place) -> None:
    """Draw lines, an arrowhead, or a row of cells, which is one thick dashed line."""
    width, dashes = float(element.get("stroke-width", 1)), element.get("stroke-dasharray", "")
    for line in lines_of(element.get("d", "")):
        if element.get("fill", "none") != "none":
            axes.add_patch(Polygon([place.at(*point) for point in line], facecolor=element.get("fill"), linewidth=0))
        elif width >= 8:
            (x, y), (end, _) = line
            cell = float(dashes.split()[0])
            while x < end:
                corner, size = place.at(x, y - width / 2), (cell * place.scale, width * place.scale)
                axes.add_patch(Rectangle(corner, *size, facecolor=element.get("stroke"), linewidth=0))
                x += cell + 2
        else:
            xs, ys = zip(*(place.at(*point) for point in line), strict=True)
            look = {"color": element.get("stroke"), "linewidth": width * place.scale * POINTS}
            axes.add_line(Line2D(xs, ys, linestyle=(0, (3, 2)) if dashes else "-", **look))


def draw_outline(axes: Axes, element: ElementTree.Element, place: Place) -> None:
    """Draw the outline of a box."""
    x, y, width, height = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
    look = {"edgecolor": element.get("stroke"), "linewidth": 2 * place.scale * POINTS, "facecolor": "none"}
    style = f"round,pad=0,rounding_size={2 * place.scale}"
    axes.add_patch(FancyBboxPatch(place.at(x, y), width * place.scale, height * place.scale, boxstyle=style, **look))


def draw_text(axes: Axes, text: str, at: tuple[float, float], place: Place) -> None:
    """Draw one line of text in the style that its classes name."""
    looks = place.style.split()
    size = next((int(look[1:]) for look in looks if look[1:].isdigit()), 12)
    axes.text(
        *at,
        text,
        fontsize=0.92 * size * place.scale * POINTS,  # matplotlib's font is wider than a browser's
        ha="center" if "m" in looks else "right" if "e" in looks else "left",
        color=HIGHLIGHT if "f" in looks else QUIET if "q" in looks else INK,
        weight="bold" if "b" in looks else "normal",
        family="monospace" if "t" in looks else "sans-serif",
        parse_math=False,
    )


def lines_of(path: str) -> Iterator[list[tuple[float, float]]]:
    """Yield the points of each line of an SVG path; the canvas writes the commands M, L, H, V, h and z only."""
    line: list[tuple[float, float]] = []
    for command, rest in COMMAND.findall(path):
        numbers = [float(number) for number in rest.split()]
        if command == "M":
            if line:
                yield line
            line = [(numbers[0], numbers[1])]
        elif command == "z":
            line.append(line[0])
        else:
            x, y = line[-1]
            ends = {"H": (numbers[0], y), "V": (x, numbers[0]), "h": (x + numbers[0], y), "L": tuple(numbers)}
            line.append(ends[command])  # type: ignore[arg-type]
    if line:
        yield line
