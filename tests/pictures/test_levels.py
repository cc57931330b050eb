"""The picture of a machine's memories."""

import pytest

from course_lib.pictures import draw_memories

from .picture_checks import check_picture, texts_of

A100 = {"SRAM on the chip": (20e6, 19e12), "HBM beside it": (40e9, 1.5e12), "RAM of the computer": (1e12, 12.8e9)}


def test_each_level_is_said_and_drawn_with_what_it_takes():
    picture = draw_memories(A100, title="An A100")
    assert picture.description.splitlines()[1:] == [
        "SRAM on the chip: 20 MB, 19 TB/s, takes 1 s.",
        "HBM beside it: 40 GB, 1.5 TB/s, takes 12.7 s.",
        "RAM of the computer: 1 TB, 12.8 GB/s, takes 25 minutes.",
    ]
    assert {"20 MB", "1.5 TB/s", "takes 25 minutes"} <= set(texts_of(picture.svg))
    check_picture(picture)


def test_unusable_levels_are_refused():
    with pytest.raises(ValueError, match="levels has 1 memories: give two to four"):
        draw_memories({"RAM": (1.0, 1.0)}, title="One")
    with pytest.raises(ValueError, match=r"levels\['b'\] is \(1.0, 0.0\): give its bytes"):
        draw_memories({"a": (1.0, 1.0), "b": (1.0, 0.0)}, title="Zero")
