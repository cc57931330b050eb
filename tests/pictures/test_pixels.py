"""Sizes in pixels stand in one place: whoever draws a picture puts tables and rows together, and counts nothing."""

import ast
import inspect
from pathlib import Path

import pytest

import course_lib.pictures
from course_lib.pictures import canvas, grid, style, table

FOLDER = Path(course_lib.pictures.__file__).parent
COUNT = {"canvas.py", "grid.py", "style.py"}  # where pixels are counted
COUNT |= {"dial.py", "plane.py"}  # and in drawings with coordinates
FREE = {0, 1, 2}  # nothing, the next one, and a half
TOOLS = {
    *(name for name, _ in inspect.getmembers(canvas.Canvas, inspect.isfunction) if not name.startswith("_")),
    *(name for name, member in inspect.getmembers(grid, inspect.isfunction) if member.__module__ == grid.__name__),
    *(name for name, member in inspect.getmembers(table, inspect.isclass) if member.__module__ == table.__name__),
}


def name_of(call):
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def draws(function):
    """Whether a function draws: whether it calls a method of a canvas, a function of the grid, or makes a table."""
    return any(isinstance(node, ast.Call) and name_of(node) in TOOLS for node in ast.walk(function))


def is_number(node):
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in FREE


def constants_of(module):
    """The names of a module's constants that are numbers, or tuples of numbers."""
    for node in module.body:
        if isinstance(node, ast.Assign) and any(map(is_number, ast.walk(node.value))):
            yield from (name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name))


def names_that_count(function):
    """The nodes in which a constant is a number of things: a slice, a comparison, the least of two, a text."""
    for node in ast.walk(function):
        counts = isinstance(node, (ast.Slice, ast.Compare, ast.FormattedValue))
        if counts or (isinstance(node, ast.Call) and name_of(node) == "min"):
            yield from ast.walk(node)


def numbers_in(code):
    """(line, number or constant) of each one that a function which draws would have to share with the style."""
    module = ast.parse(code)
    constants = set(constants_of(module))
    for function in ast.walk(module):
        if isinstance(function, (ast.FunctionDef, ast.Lambda)) and draws(function):
            counting = set(names_that_count(function))
            for node in ast.walk(function):
                if is_number(node):
                    yield node.lineno, node.value
                elif isinstance(node, ast.Name) and node.id in constants and node not in counting:
                    yield node.lineno, node.id


def hand_drawn():
    """The files that draw on a canvas; `figures.py` only takes its card and counts inches."""
    for path in sorted(FOLDER.rglob("*.py")):
        code = path.read_text(encoding="utf-8")
        if path.name not in COUNT and ("canvas import Canvas" in code or "grid import" in code):
            yield path


@pytest.mark.parametrize("path", list(hand_drawn()), ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_number_of_pixels_stands_outside_canvas_grid_and_style(path):
    assert list(numbers_in(path.read_text(encoding="utf-8"))) == []


def test_a_planted_number_is_found():
    assert list(numbers_in("def draw(self):\n    return column(parts, 14)")) == [(2, 14)]
    assert list(numbers_in("def draw(self):\n    y = 38 + top\n    canvas.text(0, y, self.name)")) == [(2, 38)]
    assert list(numbers_in("def describe(self):\n    return self.shape[3]")) == []
    named = "ROW, COLUMN = 76, 26\ndef draw(self):\n    return Table(cells, cell=(ROW, height)).draw()"
    assert list(numbers_in(named)) == [(3, "ROW")]
    assert list(numbers_in("LABEL = 130\ndef draw(name, width=LABEL):\n    return label(name, width)")) == [
        (2, "LABEL")
    ]
    assert list(numbers_in("MOST = 8\ndef draw(self):\n    return row(self.parts[:MOST])")) == []  # a number of parts
    assert {"text", "cells", "row", "column", "card", "Table"} <= TOOLS and len(list(hand_drawn())) > 10


def test_the_style_is_frozen():
    with pytest.raises(AttributeError):
        style.STYLE.cell = 30
