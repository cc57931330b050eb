"""A table of dots: dots, counts and words against the mapping that was given."""

import re

import pytest

from course_lib.pictures import dot_table
from course_lib.pictures.style import HEADS, PLAIN

from .picture_checks import TYPE, VALUE, cells_of, check_drawing, check_picture, texts_of

FOUND = {
    "no mask": {"future": True, "order": False, "compare": True},
    "no scale": {"future": False, "order": False, "compare": True},
    "none sees it": {"future": False, "order": False, "compare": False},
    "all see it": {"compare": True, "order": True, "future": True},  # in another order
}


def test_each_dot_stands_where_a_check_finds_a_fault():
    svg = dot_table(FOUND, title="Checks").svg
    rows = re.findall(r"<text y=[^>]*>(.*?)</text>", re.search(r'<g class="s11 m">(.*?)</g>', svg)[1])
    places = [[float(x) for x in re.findall(r'x="([\d.]+)">●', row)] for row in rows]
    future, order, compare = (float(x) for x in re.findall(r'x="([\d.]+)">\d', rows[-1]))
    assert places == [[future, compare], [compare], [future, order, compare], []]
    assert cells_of(svg, HEADS[1]) == 6 and cells_of(svg, PLAIN) == 6


def test_words_and_counts():
    picture = dot_table(FOUND, title="Who sees it?")
    assert picture.description.splitlines() == [
        "Who sees it?",
        "no mask: found by future and compare.",
        "no scale: found by compare.",
        "none sees it: found by none.",
        "all see it: found by future, order and compare.",
        "Found of 4 faults: future 2, order 1, compare 3.",
    ]
    texts = texts_of(picture.svg)
    assert texts.count("●") == 6 and "found of 4" in texts and "Who sees it?" in texts
    assert [text for text in texts if text.isdigit()] == ["2", "1", "3"]
    assert "A dot: the check above finds the fault on the left." in picture.caption
    assert dot_table(FOUND, title="Checks").description.startswith("Checks.\n")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["it", "a fault with a name that is far too long to be written"])
@pytest.mark.parametrize("check", ["eye", "a check of many words"])
def test_no_texts_overlap_and_nothing_is_cut(drawings, name, check):
    found = {f"{number} {name}": {f"{check} {at}": (number + at) % 2 == 0 for at in range(6)} for number in range(16)}
    picture = dot_table(found, title="Checks")
    check_drawing(drawings[0])
    check_picture(picture)
    assert all(fault in picture.description for fault in found)


@pytest.mark.parametrize(
    ("found", "error", "words"),
    [
        ([("a", {})], TYPE, "found must be a mapping, fault -> check -> bool, got list"),
        ({}, VALUE, "found is empty"),
        ({"a": {}}, VALUE, r"found\['a'\] is empty: give at least one, check -> bool"),
        ({"a": [True]}, TYPE, r"found\['a'\] must be a mapping, check -> bool, got list"),
        ({"a": {"eye": 1}}, TYPE, r"found\['a'\]\['eye'\] is 1: it must be True or False"),
        (
            {"a": {"eye": True}, "b": {"ear": True}},
            VALUE,
            r"found\['b'\] has the checks \['ear'\], the first fault \['eye'\]: give the same",
        ),
        (
            {"a": {f"a check of many words {at}": True for at in range(9)}},
            VALUE,
            "found has 9 checks, which don't fit side by side",
        ),
    ],
)
def test_bad_input_is_refused_in_words(found, error, words):
    with pytest.raises(error, match=words):
        dot_table(found, title="Checks")
