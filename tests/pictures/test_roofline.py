"""The roofline: numbers against the formula, what a point is bound by, names of the regions, bad input refused."""

import re

import pytest

from course_lib.pictures import Picture, roofline
from course_lib.pictures.charts.roofline import MOST_POINTS

from .figure_checks import check_figure
from .picture_checks import TYPE, VALUE

MACHINE = {"gflops": 120.0, "gb_per_s": 30.0, "title": "A machine"}
POINTS = {"decode": 1.0, "slow": (2.0, 15.0), "prefill": 400, "half": (200.0, 60.0)}


@pytest.mark.slow
def test_words_hold_the_roof_and_how_far_below_it_a_point_is():
    assert roofline(POINTS, **MACHINE, note="A note.").description.split("\n") == [
        "A machine. At most 120 billion operations per second, and 30.0 GB per second: they meet at 4.00 "
        "operations/byte.",
        "decode: 1.00 operations/byte, memory-bound, at most 30.0 billion operations per second.",
        "slow: 2.00 operations/byte, memory-bound, 15.0 billion operations per second, 4.00 times below the roof.",
        "prefill: 400 operations/byte, compute-bound, at most 120 billion operations per second.",
        "half: 200 operations/byte, compute-bound, 60.0 billion operations per second, 2.00 times below the roof.",
        "A note.",
    ]


def test_the_drawing_holds_the_roof_and_the_points(axes):
    roofline(POINTS, **MACHINE)
    (ax,) = axes
    roof, *points = ax.lines
    for x, y in zip(*roof.get_data(), strict=True):
        assert y == pytest.approx(min(120, 30 * x))
    assert 4.0 in roof.get_xdata()
    drawn = [(line.get_xdata()[0], line.get_ydata()[0]) for line in points]
    assert drawn == [(1, 30), (2, 15), (400, 120), (200, 60)]


@pytest.mark.slow
def test_the_regions_are_named_on_their_own_sides(axes):
    roofline({"prefill": 400.0}, **MACHINE)
    places = {text.get_text(): (text.get_position()[0], text.get_ha()) for text in axes[0].texts}
    assert places["memory-bound"][0] < 4 and places["memory-bound"][1] == "right"
    assert places["compute-bound"][0] > 4 and places["compute-bound"][1] == "left"
    assert "balance 4.00" in places


@pytest.mark.slow
@pytest.mark.parametrize(
    "points", [POINTS, {"a": 1e-3}, {"a": 1e6}, {f"a name that is long, number {n}": 4.0 for n in range(MOST_POINTS)}]
)
def test_no_text_is_cut_or_overlaps_another(points, figures):
    assert isinstance(roofline(points, **MACHINE, note="A note. " * 20), Picture)
    check_figure(figures[0], smallest=8.25)


@pytest.mark.parametrize(
    ("points", "error", "said"),
    [
        ([1.0], TYPE, "points must be a mapping, name -> intensity, got list."),
        ({}, VALUE, "points is empty: give at least one, name -> intensity."),
        ({"a": (1.0, 2.0, 3.0)}, TYPE, "points['a'] must be an intensity or (intensity, 10^9 operations per"),
        ({"a": "1"}, TYPE, "points['a'] must be an intensity or (intensity, 10^9 operations per second), got '1'."),
        ({"a": 0.0}, VALUE, "points['a'] must be finite and above 0, got 0.0"),
        ({str(n): 1.0 for n in range(8)}, VALUE, "points has 8 names, but 7 can be told apart: draw two pictures."),
    ],
)
def test_bad_points_are_refused(points, error, said):
    with pytest.raises(error, match=re.escape(said)):
        roofline(points, **MACHINE)


def test_a_machine_has_limits():
    with pytest.raises(ValueError, match=re.escape("gb_per_s must be finite and above 0, got 0")):
        roofline({"a": 1.0}, gflops=1, gb_per_s=0, title="t")
