"""The picture of an exchange between two runs."""

import pytest

from course_lib.pictures import draw_patch

from .picture_checks import check_picture

PARTS = ("queries", "keys", "values")


@pytest.mark.parametrize("patched", PARTS)
def test_the_part_from_the_other_run_is_said_and_drawn(patched):
    picture = draw_patch("Zoe", "Mila", PARTS, patched)
    own = " and ".join(part for part in PARTS if part != patched)
    assert picture.description.endswith(f"{own}: Zoe's; {patched}: Mila's, Mila → Zoe.")
    assert picture.svg.count(">Zoe's<") == 2 and picture.svg.count(">Mila's<") == 4
    check_picture(picture)


def test_unusable_arguments_are_refused():
    with pytest.raises(ValueError, match="patched is 'scores': give one of 'queries', 'keys', 'values'"):
        draw_patch("Zoe", "Mila", PARTS, "scores")
    with pytest.raises(ValueError, match="here and there are both 'Zoe'"):
        draw_patch("Zoe", "Zoe", PARTS, "keys")
