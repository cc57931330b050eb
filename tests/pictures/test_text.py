"""Numbers, lists and labels as short texts."""

from itertools import pairwise

import pytest

from course_lib.pictures.style import TEXT
from course_lib.pictures.text import fold_code, is_within_letter, minus, number_text, text_width


@pytest.mark.parametrize(
    ("number", "text", "in_table"),
    [
        (True, "T", "T"), (7, "7", "7.00"), (-123456, "-1e5", "-1e5"), (123456, "123456", "1e5"),
        (1234567, "1e6", "1e6"), (0.0, "0", "0.00"), (-0.0, "0", "0.00"), (2.0, "2", "2.00"), (0.724, "0.72", "0.72"),
        (-0.001, "-1e-3", "0.00"), (-1.5, "-1.50", "-1.50"), (-9.994, "-9.99", "-9.99"), (-12.34, "-12.3", "-12.3"),
        (23.44, "23.4", "23.4"), (99.96, "100", "100"), (356.7, "357", "357"), (0.00003, "3e-5", "0.00"),
        (12345.6, "1e4", "1e4"), (4e7, "4e7", "4e7"), (float("nan"), "nan", "nan"), (float("-inf"), "-inf", "-inf"),
    ],
)  # fmt: skip
def test_numbers_are_short(number, text, in_table):
    assert number_text(number) == text and number_text(number, decimals=True) == in_table
    assert len(in_table) <= 5 and len(text) <= 6


def test_minus_signs_are_as_wide_as_a_plus():
    assert minus("1.0 + -2.0 · -3.0 = 7.0") == "1.0 − 2.0 · −3.0 = 7.0"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (".transpose(1, 2)", [".transpose(1, 2)"]),
        (".view(batch, num_tokens, heads)", [".view(batch,", "num_tokens, heads)"]),
        ("a_name_that_is_too_long(x)", ["a_name_that_is_too_long(x)"]),
        ("", []),
    ],
)
def test_long_code_is_folded_after_commas(code, lines):
    assert fold_code(code, 20) == lines


@pytest.mark.parametrize(
    ("word", "em"),  # measured in Chromium with the fonts of the Noto project
    [
        ("வணக்கம்", 5.16), ("നമസ്കാരം", 5.59), ("ආයුබෝවන්", 5.45), ("నమస్కారం", 4.34), ("အာရုံ", 2.2),
        ("মনোযোগ", 3.73), ("ओंकार", 2.45), ("ສະບາຍດີ", 3.86), ("ትኩረት", 2.47), ("Բարեւ", 3.41), ("ქართული", 4.72),
        ("شمس", 2.69), ("Щищащ", 4.06), ("внимание", 5.01), ("❤️", 1.25), ("1️⃣", 1.25),
    ],
)  # fmt: skip
def test_words_in_any_script_get_their_room(word, em):
    assert em <= text_width(word, 1) <= 1.7 * em


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("नमस्ते", ["न", "म", "स्", "ते"]),
        ("e\u0301a\u0308", ["e\u0301", "a\u0308"]),
        ("👩‍👩‍👧👍🏽", ["👩‍👩‍👧", "👍🏽"]),
        ("🇫🇷🇩🇪🇮🇹", ["🇫🇷", "🇩🇪", "🇮🇹"]),
        ("ab", ["a", "b"]),
    ],
)
def test_a_cut_never_separates_what_is_one_letter(text, letters):
    places = [0, *(place for place in range(1, len(text)) if not is_within_letter(text, place)), len(text)]
    assert [text[start:end] for start, end in pairwise(places)] == letters
    wanted = {"", text, *("".join(letters[:number]) + "…" for number in range(1, len(letters) + 1))}
    assert {TEXT.clip(text, width) for width in range(100)} <= wanted
