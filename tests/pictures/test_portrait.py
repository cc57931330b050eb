"""The drawing for a phone: the same cells as the wide one, folded, and shown by the width of the screen."""

import base64
import re

import pytest
import torch

from course_lib.pictures import Picture, draw_matrix_product, draw_vectors, head_heatmaps
from course_lib.pictures.drawing_width import drawing_width, is_narrow, on_a_phone
from course_lib.pictures.grid import label
from course_lib.pictures.style import STYLE, WHITE
from course_lib.pictures.table import Box, Label, Table
from tests.pictures.picture_checks import texts_of

NUMBERS = [[(f"{row}.{column}", WHITE) for column in range(7)] for row in range(2)]


def test_the_room_is_a_phones_within_the_block_only():
    with on_a_phone():
        assert is_narrow() and drawing_width() == STYLE.narrow
    assert not is_narrow() and drawing_width() == STYLE.width


def test_columns_are_cut_between_labels_and_every_cell_is_kept():
    table = Table(NUMBERS, below=[Label("a", 3), Label("b", 2), Label("c", 2)], outlined=[Box(1, 5)])
    parts = table.divided(5)
    assert [[label.text for label in part.below] for part in parts] == [["a", "b"], ["c"]]
    assert [part.outlined for part in parts] == [[], [Box(1, 0)]]
    assert [[cell for part in parts for cell in part.cells[row]] for row in range(2)] == NUMBERS


def test_columns_without_room_for_a_label_are_cut_evenly_and_an_outline_goes_on():
    parts = Table(NUMBERS, above=[Label("all", 7)], outlined=[Box(0, 0, 1, 7)]).divided(4)
    assert [len(part.cells[0]) for part in parts] == [4, 3]
    assert [part.outlined for part in parts] == [[Box(0, 0, 1, 4)], [Box(0, 0, 1, 3)]]
    assert [part.above for part in parts] == [[Label("all", 4)], [Label("all", 3)]]


def test_a_wide_table_keeps_its_numbers_upright():
    picture = draw_matrix_product(torch.arange(24.0).view(2, 12)[:, :8], torch.arange(64.0).view(8, 8) / 7)
    wide, upright = (sorted(text for text in texts_of(svg) if "." in text) for svg in (picture.svg, picture.portrait))
    assert [text for text in wide if text[0].isdigit()] and set(wide) - set(upright) == set()


def test_a_page_shows_the_upright_drawing_on_a_phone_only():
    html = draw_vectors({"key": torch.randn(3, 2, generator=torch.Generator().manual_seed(0))})._repr_html_()
    (media, upright), (wide,) = (
        re.search(r'media="([^"]+)" srcset="([^"]+)"', html).groups(),
        re.findall(r' src="([^"]+)"', html),
    )
    drawn = [base64.b64decode(data.partition(",")[2]).decode() for data in (upright, wide)]
    widths = [int(re.search(r'width="(\d+)"', svg)[1]) for svg in drawn]
    assert media == "(max-width: 575px)" and widths[0] <= 360 < widths[1]


def test_one_below_the_other_they_have_an_upright_drawing_if_one_of_them_has():
    def picture(wide, portrait=""):
        svg, upright = (text and label(text).svg() for text in (wide, portrait))
        return Picture(svg=svg, portrait=upright, description="", caption="")

    few, many = picture("wide", "upright"), picture("many")
    assert not many.above(many, caption="").portrait
    for words, other in [(few, few), (few, many), (many, few)]:
        texts = [text for each in (words, other) for text in texts_of(each.portrait or each.svg)]
        assert texts_of(words.above(other, caption="").portrait) == texts


@pytest.mark.slow
def test_heads_stand_below_each_other_unless_their_numbers_would_be_too_small():
    few, many = (torch.full((2, size, size), 1 / size) for size in (5, 8))
    assert int(re.search(r'width="(\d+)"', head_heatmaps(few).portrait)[1]) <= 400
    assert head_heatmaps(many).portrait == ""
