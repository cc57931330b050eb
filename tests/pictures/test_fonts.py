"""Labels in any script: fonts that have their letters, one sentence where no font has, and room for wide letters."""

import logging
import re
import warnings

import pytest
import torch

from course_lib.pictures import bar_chart, compare, draw_matrix_product, fonts, head_heatmaps, heatmap
from course_lib.pictures.figures import in_lines
from course_lib.pictures.text import text_width, width_in_characters

from .picture_checks import check_picture

WORDS = ("大きな", "夢を", "見て")
RARE = "⌒"  # in STIX, which comes with matplotlib as well, and not in its usual font
LOG = logging.getLogger("matplotlib.font_manager")
PATTERN = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.2, 0.3, 0.5]])
PICTURES = {
    "heatmap": lambda words: heatmap(PATTERN, words),
    "heads": lambda words: head_heatmaps(torch.stack([PATTERN, PATTERN]), words),
    "compare": lambda words: compare(PATTERN, PATTERN, words),
    "bars": lambda words: bar_chart(dict.fromkeys(words, 1.0), title="Words", unit="ms"),
}


@pytest.fixture
def only_usual_font(monkeypatch):
    """A machine that has no font but the one that comes with matplotlib."""
    fonts.fonts_for.cache_clear()
    monkeypatch.setattr(fonts, "_files", dict)
    yield
    fonts.fonts_for.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("draw", PICTURES.values(), ids=list(PICTURES))
def test_letters_without_a_font_are_one_sentence_and_no_crash(draw, only_usual_font):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        svg = draw(WORDS).svg
    assert [str(each.message) for each in said] == [
        "matplotlib finds no font with き, て, な, を, 夢 and 2 more, so it only guesses how wide their labels are: "
        "install one, such as a Noto font (Debian, Ubuntu: apt install fonts-noto-cjk fonts-noto-core), and restart "
        "the kernel."
    ]
    assert said[0].filename == __file__  # the line that called for the picture
    assert all(f">{word}<" in svg for word in WORDS)


class Listener(logging.Handler):
    """Keeps what is logged: pytest's own listening is switched off."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.records = []

    def emit(self, record):
        self.records.append(record)


def test_a_font_that_has_the_letters_is_used_without_a_word(monkeypatch):
    heard = Listener()
    monkeypatch.setattr(LOG, "handlers", [*LOG.handlers, heard])
    monkeypatch.setattr(fonts, "FAMILIES", ("No such font", "STIXGeneral"))
    fonts.fonts_for.cache_clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = heatmap(PATTERN, (RARE, "b", "c")).svg
        with fonts.figure_style(RARE):
            LOG.warning("Failed to find font weight normal.")
    fonts.fonts_for.cache_clear()
    LOG.warning("Said outside, it is heard.")
    assert [record.getMessage() for record in heard.records] == ["Said outside, it is heard."]
    assert LOG.isEnabledFor(logging.WARNING)
    assert f">{RARE}<" in svg and "sans-serif, 'STIXGeneral'" in svg


@pytest.mark.slow
def test_usual_letters_need_no_other_font():
    assert fonts.fonts_for(frozenset("Dream “größer” √ × → Ωж")) == ([], [])
    assert "Noto" not in heatmap(PATTERN, ("a", "b", "c")).svg


def test_marks_that_have_no_width_are_not_missed():
    assert fonts.fonts_for(frozenset("e\u0301\u200d\n")) == ([], [])


def test_how_wide_letters_are():
    assert width_in_characters("Dream") == len("größer") - 1 == 5
    assert width_in_characters("e\u0301") == 1
    assert text_width("大きな", 10) == pytest.approx(30)
    assert text_width("大きな", 10, mono=True) == pytest.approx(30)
    assert text_width("한국", 10, bold=True) == pytest.approx(21.4)
    assert text_width("😀", 10) == pytest.approx(14)


def test_wide_words_get_their_room():
    usual, wide = (
        draw_matrix_product(PATTERN, PATTERN, words=words) for words in (("abcdef",) * 3, ("六六六六六六",) * 3)
    )
    check_picture(wide)
    assert _width(wide.svg) - _width(usual.svg) >= 2 * 28  # rows are labelled twice, six times 1 - 0.61 em wider


@pytest.mark.slow
def test_wide_letters_turn_the_labels_sooner():
    assert "rotate(-45" not in heatmap(PATTERN, ("sixsix", "b", "c")).svg
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "rotate(-45" in heatmap(PATTERN, ("六六六六六六", "b", "c")).svg


def test_lines_hold_fewer_wide_letters():
    assert in_lines("two words of one line", 1.0).split("\n") == ["two words of", "one line"]
    assert in_lines("注意 " * 4, 0.6).split("\n") == ["注意 注意", "注意 注意"]
    assert in_lines("kept\nlines", 9.0) == "kept\nlines"
    assert in_lines("internationalization", 0.5) == "internationalization"
    assert in_lines("", 4.0) == "" and in_lines("\u0301", 4.0) == "\u0301"


def _width(svg):
    return int(re.search(r'width="(\d+)"', svg)[1])
