"""What every hand-written picture must be: well-formed, nothing cut, nothing overlapping, words beside it."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

from course_lib.pictures.style import STYLE
from course_lib.pictures.text import text_width

TYPE, VALUE = TypeError, ValueError  # short, for tables of what is refused
SPACE = "{http://www.w3.org/2000/svg}"


def texts_of(svg):
    """Every text of a drawing, in order."""
    root = ElementTree.fromstring(svg)
    return [node.text for node in root.iter() if node.tag in (f"{SPACE}text", f"{SPACE}tspan") and node.text]


def cells_of(svg, color):
    """How many cells of a colour a drawing has: each dash of a line is one."""
    lines = re.findall(rf'<path d="([^"]+)" stroke="{color}" stroke-width="[\d.]+" stroke-dasharray="([\d.]+) 2"', svg)
    return sum(
        round((float(run) + STYLE.between) / (float(cell) + STYLE.between))
        for path, cell in lines
        for run in re.findall(r"h([\d.]+)", path)
    )


def check_drawing(drawing, widest=900):
    """Assert that no text of a canvas is cut or overlaps another, in any of the usual fonts."""
    assert drawing.width + 2 * STYLE.margin <= widest
    boxes = [box for box in drawing.text_boxes if box[4]]
    for left, top, right, bottom, text in boxes:
        inside = (
            left >= -STYLE.margin
            and top >= -STYLE.margin
            and right <= drawing.width + 1
            and bottom <= drawing.height + 1
        )
        assert inside, f"{text!r} is cut"
    for one, two in combinations(boxes, 2):
        apart = one[2] <= two[0] + 0.6 or two[2] <= one[0] + 0.6 or one[3] <= two[1] + 0.6 or two[3] <= one[1] + 0.6
        assert apart, f"{one[4]!r} and {two[4]!r} overlap"


def check_picture(picture, largest=20_000):
    """Assert what holds for every picture."""
    check_svg(picture.svg, 910, largest)
    if picture.portrait:
        check_svg(picture.portrait, 375, 1.2 * largest)
    assert picture.description.strip() and picture.caption.strip().endswith((".", "nan", ")"))


def check_svg(svg, widest, largest):
    """Assert that a drawing is small enough and no text in it is cut or overlaps another."""
    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width")), float(root.get("height"))
    assert width <= widest, f"{width} pixels wide"
    assert len(svg.encode()) < largest, f"{len(svg)} bytes"
    assert " id=" not in svg
    boxes = list(_boxes(root, 0.0, 0.0))
    for left, top, right, bottom, text in boxes:
        assert left >= 0 and top >= 0 and right <= width + 1 and bottom <= height + 1, f"{text!r} is cut"
    for number, box in enumerate(boxes):
        for other in boxes[number + 1 :]:
            across = min(box[2], other[2]) - max(box[0], other[0])
            down = min(box[3], other[3]) - max(box[1], other[1])
            assert across <= 1 or down <= 1, f"{box[4]!r} and {other[4]!r} overlap"


def _boxes(node, x, y):
    """(left, top, right, bottom, text) of each text, as wide as it is in the usual fonts."""
    if node.tag == f"{SPACE}svg":
        y += float(node.get("y", 0))
    if match := re.fullmatch(r"translate\((\S+) (\S+)\)", node.get("transform", "")):
        x, y = x + float(match[1]), y + float(match[2])
    looks = node.get("class", "").split()
    for child in node:
        inherited = " ".join([*looks, child.get("class", "")])
        if child.tag == f"{SPACE}tspan":
            yield _box(child.text, inherited, x + float(child.get("x")), y + float(node.get("y")))
        elif child.tag == f"{SPACE}text" and child.text:
            yield _box(child.text, inherited, x + float(child.get("x")), y + float(child.get("y")))
        else:
            child.set("class", inherited)
            yield from _boxes(child, x, y)


def _box(text, looks, x, y):
    looks = looks.split()
    size = next((float(look[1:]) for look in looks if re.fullmatch(r"s\d+", look)), 12.0)
    # 0.92: text_width is an upper bound over all fonts, and texts may come near each other
    width = 0.92 * text_width(text, size, bold="b" in looks, mono="t" in looks)
    left = x - width * (0.5 if "m" in looks else 1.0 if "e" in looks else 0.0)
    return left, y - 0.72 * size, left + width, y + 0.18 * size, text
