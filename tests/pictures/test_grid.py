"""Rows, columns and tables: everything finds its place without anybody counting pixels."""

import dataclasses
import importlib
import inspect
import pkgutil

import pytest

import course_lib.pictures
from course_lib.pictures import Picture, Scene
from course_lib.pictures.canvas import Canvas
from course_lib.pictures.grid import arrow, card, column, flow, label, quote, row, wrap
from course_lib.pictures.picture import Panels
from course_lib.pictures.style import (
    BOLD,
    HEADS,
    HIGHLIGHT,
    INK,
    PLAIN,
    SMALL,
    STYLE,
    TEXT,
    TextStyle,
    darken,
    head_color,
)
from course_lib.pictures.table import Box, Label, Table, labels_of

from .picture_checks import check_drawing, texts_of


def table(rows=2, columns=3, **options):
    return Table([[(f"{row}{column}", PLAIN) for column in range(columns)] for row in range(rows)], **options)


def place_of(canvas, text):
    """(left, top, right, bottom) of the only text that says so."""
    (box,) = [box[:4] for box in canvas.text_boxes if box[4] == text]
    return box


def test_cells_of_tables_in_a_row_begin_at_one_height():
    plain, titled = table().draw(), table(title="title", above=[Label("head 0", 3)]).draw()
    both = row([plain, titled])
    first, second = [box for box in both.text_boxes if box[4] == "00"]
    assert first[1] == second[1] and first[2] < second[0]
    assert both.top == titled.top > plain.top == 0
    assert both.height == max(titled.height, titled.top + plain.height)


def test_signs_and_arrows_stand_at_the_middle_of_the_first_table():
    tall, low = table(rows=5, title="tall").draw(), table(rows=1).draw()
    line = row([tall, "=", low, arrow("view", "no element moves"), table().draw()])
    for text, slack in (("=", 5), ("view", 20)):
        _, top, _, bottom = place_of(line, text)
        assert abs((top + bottom) / 2 - line.middle) < slack
    assert line.middle == line.top + (tall.middle - tall.top)
    check_drawing(line)


def test_columns_leave_gaps_and_skip_what_is_empty():
    whole = column([label("one"), Canvas(), label("two")], gap=10)
    first, two = place_of(whole, "one"), place_of(whole, "two")
    assert two[1] - first[1] == pytest.approx(label("one").height + 10, abs=1)
    assert column([Canvas(), Canvas()]).height == 0
    assert column([label("a name"), table(title="title").draw()]).top > table(title="title").draw().top


def test_a_line_goes_on_where_the_width_ends_and_keeps_units_together():
    parts = [table(columns=10).draw(), ("=", table(columns=10).draw()), ("=", table(columns=12).draw())]
    whole = wrap(parts)
    assert whole.width <= STYLE.width
    first, second = [box for box in whole.text_boxes if box[4] == "="]
    assert second[1] > first[3] and second[0] == 0  # the second sign begins the second line
    check_drawing(whole)
    words = flow([("word", TEXT)] * 40)
    assert words.width <= STYLE.width and len({box[1] for box in words.text_boxes}) == 3


@pytest.mark.parametrize(("text", "lines"), [("a", 1), ("wide", 1), ("far wider", 2), ("far wider than its column", 2)])
def test_labels_of_columns_get_smaller_or_stand_on_two_lines_or_are_cut(text, lines):
    drawn = table(columns=4, above=[Label(text)] * 4).draw()
    labels = [box for box in drawn.text_boxes if box[4][0] == text[0] and box[3] < drawn.top]
    assert len(labels) == 4 and len({box[1] for box in labels}) == lines
    check_drawing(drawn)


def test_a_label_has_a_short_form_and_neighbours_share_one():
    assert {"h0", "h1"} <= {
        box[4] for box in table(columns=2, below=[Label("head 0", 1, "h0"), Label("head 1", 1, "h1")]).draw().text_boxes
    }
    assert labels_of(["head 0", "head 0", "head 1"]) == (("head 0", 2, ""), ("head 1", 1, ""))


def test_rows_have_labels_marks_and_outlines():
    names = ["first", "a label that is far too long for the side of a table"]
    drawn = dataclasses.replace(table(), rows=names, marks=[("✓", INK), ("✗", HIGHLIGHT)])
    canvas = drawn.draw()
    svg = canvas.svg()
    assert "first" in texts_of(svg) and any(text.startswith("a label") and text.endswith("…") for text in texts_of(svg))
    assert place_of(canvas, "✗")[0] > place_of(canvas, "12")[2]
    outlined = table(outlined=[Box(0, 1, 2, 2)]).draw().svg()
    size = 2 * STYLE.pitch - STYLE.between
    assert f'<rect x="{STYLE.pitch}" y="0" width="{size}" height="{size}"' in outlined
    check_drawing(canvas)


def test_a_card_has_a_title_notes_and_parts():
    canvas = card("Title", ["how to read it", ""], table().draw(), quote(label("said")), label(""))
    assert [box[4] for box in canvas.text_boxes][:2] == ["Title", "how to read it"]
    assert place_of(canvas, "said")[0] == STYLE.near
    check_drawing(canvas)


def test_styles_measure_clip_and_change():
    assert BOLD.width("text") > TEXT.width("text") > SMALL.width("text")
    assert SMALL.clip("Dream", 100) == "Dream" and SMALL.clip("attention", 3) == ""
    clipped = SMALL.clip("attention", 40)
    assert clipped.endswith("…") and len(clipped) >= 4 and SMALL.width(clipped) <= 40
    assert SMALL.but(color=HIGHLIGHT) == TextStyle(11, color=HIGHLIGHT)
    assert head_color(9) == HEADS[1] and darken("#FF8000") == "#8C4600"


@dataclasses.dataclass(frozen=True)
class Word:
    word: str

    def describe(self):
        return f"The word {self.word}."

    def draw(self):
        return label(self.word)


def test_a_picture_is_what_a_scene_says_and_draws():
    scene = Panels(
        [Word("one"), Word("two")], title="Words", note="read them", caption="Two.", introduction="There are two."
    )
    picture = Picture.of(scene, [Panels([Word("one")], "", "", "Step 1.")])
    assert picture.description == "There are two.\nThe word one.\nThe word two." and picture.caption == "Two."
    assert texts_of(picture.svg) == ["Words", "read them", "one", "two"]
    assert [step.caption for step in picture.steps] == ["Step 1."]


def scenes():
    """Every class of the library that describes and draws itself."""
    for found in pkgutil.walk_packages(course_lib.pictures.__path__, "course_lib.pictures."):
        for _, member in inspect.getmembers(importlib.import_module(found.name), inspect.isclass):
            own = member.__module__ == found.name and not getattr(member, "_is_protocol", False)
            if own and hasattr(member, "describe") and hasattr(member, "draw"):
                yield member


def test_scenes_are_frozen():
    found = list(scenes())
    assert len(found) > 12 and Scene not in found
    for scene in found:
        assert dataclasses.is_dataclass(scene) and scene.__dataclass_params__.frozen, scene
