"""The pictures beside shared links: their size, and that they are the course's own drawings."""

from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from course_lib.pictures.canvas import Canvas
from course_lib.pictures.style import BOLD, HIGHLIGHT, TITLE
from tools.book.drawing import Place, colors_of, draw, lines_of
from tools.book.preview import HEIGHT, PREVIEWS, WIDTH, write_previews


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("previews")
    write_previews(folder)
    return folder


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", PREVIEWS)
def test_a_preview_is_small_and_full(folder, kind):
    path = folder / f"{kind}.png"
    assert path.stat().st_size < 100_000
    image = Image.open(path)
    assert image.size == (WIDTH, HEIGHT)
    pixels = np.asarray(image.convert("L")) < 250
    assert (
        pixels[:10].sum() == pixels[-10:].sum() == pixels[:, :20].sum() == pixels[:, -20:].sum() == 0
    )  # nothing is cut
    assert 0.04 < pixels.mean() < 0.5


@pytest.mark.parametrize("kind", PREVIEWS)
def test_its_words_say_what_it_shows(kind):
    alt = PREVIEWS[kind].alt
    assert 60 < len(alt) < 420 and alt.endswith(".")


def test_a_drawing_has_its_cells_texts_lines_and_outlines_where_the_svg_has_them():
    canvas, inner = Canvas(), Canvas()
    inner.cells([(10, 20), (36, 20)], "#FAD680")
    inner.outline(36, 20, 24)
    inner.text(10, 70, "word", BOLD)
    inner.lines([(0, 80, 50, 80)])
    inner.triangle(60, 80, 8, "#8C959F")
    canvas.place(inner, 100, 200)
    canvas.text(5, 10, "title", TITLE.but(color=HIGHLIGHT), anchor="end")
    axes = Figure().add_axes((0, 0, 1, 1))
    svg = ElementTree.fromstring(canvas.svg())
    draw(axes, svg, Place(0, 0, 2, colors_of(svg)))
    first, second, outline, arrow = axes.patches
    # the margin of the card is 20, and everything is drawn twice as large
    assert [patch.get_xy() for patch in (first, second)] == [(260, 480), (312, 480)]
    assert (first.get_width(), first.get_height()) == (48, 48)
    assert (outline.get_x(), outline.get_y(), outline.get_width()) == (312, 480, 48)
    assert arrow.get_xy()[0].tolist() == [360, 600]
    assert axes.lines[0].get_xydata().tolist() == [[240, 600], [340, 600]]
    word, title = axes.texts
    assert (word.get_position(), word.get_weight()) == ((260, 580), "bold")
    assert (title.get_position(), title.get_ha(), title.get_color()) == ((50, 60), "right", HIGHLIGHT)


def test_the_commands_of_a_path():
    assert list(lines_of("M1 2h3V7H0L5 5zM9 9L8 8")) == [
        [(1, 2), (4, 2), (4, 7), (0, 7), (5, 5), (1, 2)],
        [(9, 9), (8, 8)],
    ]
