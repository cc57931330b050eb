"""Plots of measured numbers: words and drawing from the same data, nothing overlapping, bad input refused in words."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import matplotlib
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from course_lib.pictures import Picture, bars, counts, lines
from course_lib.pictures.bar_drawing import FIRST, OTHERS, bars_figure
from course_lib.pictures.curve_drawing import LOOKS, apart, lines_figure, round_numbers
from course_lib.pictures.fonts import STYLE
from course_lib.pictures.plot_checks import MOST_CURVES, checked_bars, checked_curves
from course_lib.pictures.plot_frame import plain, ratio, size, tick

KEYS = (1024, 2048, 4096, 8192)
STEPS = {"broadcast": {k: k / 20 for k in KEYS}, "folded": {k: k / 1000 for k in KEYS}}
LIMIT = {"reading once": {k: k / 1500 for k in KEYS}}
DECODE = {"title": "One decoding step", "x": "keys", "y": "ms a step"}
TIMES = {"wrapper": (57.0, 55.0, 60.0), "weight split": (51.0, 50.4, 55.0), "nn.MultiheadAttention": 66.0}
MANY = {f"a rather long name of a curve, number {n}": {k: (k + n) / 7 for k in KEYS} for n in range(MOST_CURVES)}


def texts_of(picture):
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.svg)


def drawn(make, *args):
    """The figure, as matplotlib lays it out, and the boxes of its texts in pixels."""
    with matplotlib.rc_context(STYLE):
        figure = make(*args)
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text() and text.get_visible()]
        return figure, {text: text.get_window_extent(renderer) for text in texts}


def test_words_of_curves_hold_their_ends_and_their_distance():
    assert lines(STEPS, **DECODE, limit=LIMIT, note="A machine, today.").words.split("\n") == [
        "One decoding step. Curves of ms a step against keys, both axes logarithmic.",
        "broadcast: 51.2 at 1k, 410 at 8k; that is 8.00 times as much for 8.00 times the x.",
        "folded: 1.02 at 1k, 8.19 at 8k; that is 8.00 times as much for 8.00 times the x.",
        "Dashed, a limit: reading once: 0.683 at 1k, 5.46 at 8k; that is 8.00 times as much for 8.00 times the x.",
        "At 8k keys, in multiples of reading once: broadcast 75.0 and folded 1.50.",
        "A machine, today.",
    ]


def test_curves_are_compared_where_all_of_them_were_measured():
    shorter = {**STEPS, "broadcast": {1024: 60.0, 4096: 210.0}}
    assert lines(shorter, **DECODE).words.split("\n")[-1] == "At 4k keys, in multiples of folded: broadcast 51.3."
    assert "in multiples" not in lines({"a": {1: 1, 2: 2}, "b": {3: 1, 4: 2}}, **DECODE).words
    assert "in multiples" not in lines({"a": {1: 1, 2: 2}}, **DECODE).words


def test_points_may_come_in_any_order():
    turned = {name: dict(reversed(curve.items())) for name, curve in STEPS.items()}
    assert lines(turned, **DECODE).svg == lines(STEPS, **DECODE).svg


def test_the_drawing_of_curves_holds_names_ends_ticks_and_note():
    texts = texts_of(lines(STEPS, **DECODE, limit=LIMIT, note="A machine, today."))
    assert {"One decoding step", "ms a step", "keys", "A machine, today."} <= set(texts)
    assert {"broadcast: 410", "folded: 8.19", "reading once: 5.46"} <= set(texts)
    assert {"1k", "2k", "4k", "8k", "1", "10", "100"} <= set(texts)


def test_curves_lie_where_their_numbers_are_and_differ_in_shape():
    figure, _ = drawn(lines_figure, *checked_curves(STEPS, LIMIT), "t", "x", "y", "")
    (ax,) = figure.axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    curves = [dict(zip(*line.get_data(), strict=True)) for line in ax.lines]
    assert curves == [*STEPS.values(), *LIMIT.values()]
    assert [line.get_marker() for line in ax.lines] == ["o", "s", "None"]
    assert [line.get_linestyle() for line in ax.lines] == ["-", "-", "--"]


def test_few_decades_get_more_ticks_and_many_points_fewer():
    texts = texts_of(lines({"a": {n: n for n in range(1, 41)}}, **DECODE))
    assert {"1", "2", "5", "10", "20", "50"} <= set(texts)  # y
    assert {"6", "11", "36"} <= set(texts) and "7" not in texts  # x
    assert "20" not in texts_of(lines({"a": {7: 1e-3, 8: 1e3}}, **DECODE))


def test_a_single_point_is_a_marker_and_does_not_grow():
    picture = lines(
        {"prefill": {256.4: 40.0}, "decode": {0.5: 8.0, 16.0: 30.0}}, title="t", x="FLOP a byte", y="GFLOP/s"
    )
    assert "prefill: 40.0 at 256." in picture.words
    assert {"1", "10", "100", "prefill: 40.0"} <= set(texts_of(picture))  # nothing was measured at whole numbers


def test_only_curves_have_a_line_to_their_name():
    figure, _ = drawn(lines_figure, *checked_curves({"a": {1: 1, 2: 2}, "b": {2: 1}}, {}), "t", "x", "y", "")
    assert sorted(len(artist.get_xdata()) for artist in figure.artists) == [1, 1, 3]  # two marks, the line from a


def test_round_numbers():
    assert round_numbers(0.3, 30.0) == [0.5, 1, 2, 5, 10, 20]
    assert round_numbers(0.3, 300.0) == [1, 10, 100]
    assert round_numbers(2e-4, 0.3) == [1e-3, 1e-2, 0.1]


def test_words_of_bars_hold_numbers_spread_and_ratios():
    assert bars(TIMES, title="Forward", unit="ms", note="A machine, today.").words.split("\n") == [
        "Forward, in ms.",
        "wrapper: 57.0 (55.0 to 60.0), with which the others are compared.",
        "weight split: 51.0 (50.4 to 55.0), 1.12 times less.",
        "nn.MultiheadAttention: 66.0, 1.16 times as much.",
        "A machine, today.",
    ]
    assert bars({"a": 3, "b": 3.001}, title="t", unit="ms").words.endswith("b: 3.00, as much.")


def test_ratios_may_be_given_where_they_were_measured_side_by_side():
    ratios = {"wrapper": 1.0, "weight split": 0.8, "nn.MultiheadAttention": 1.5}
    picture = bars(TIMES, title="Forward", unit="ms", ratios=ratios)
    assert "1.25 times less" in picture.words and "1.50 times as much" in picture.words
    assert {"1", "÷ 1.25", "× 1.50"} <= set(texts_of(picture))


def test_counts_stand_for_themselves():
    picture = counts({"no-softmax": 12, "wrong-scale": 1}, title="Mistakes", unit="students", note="Of 30.")
    assert picture.words.split("\n") == ["Mistakes.", "no-softmax: 12 students.", "wrong-scale: 1 student.", "Of 30."]
    assert {"12 students", "1 student"} <= set(texts_of(picture)) and "× " not in "".join(texts_of(picture))
    with pytest.raises(TypeError, match=r"values\['a'\] is 1\.5: counts are whole numbers; `bars` draws others\."):
        counts({"a": 1.5}, title="t", unit="students")


def test_bars_begin_at_zero_and_end_at_their_numbers():
    figure, _ = drawn(bars_figure, checked_bars(TIMES, None), "t", "ms", "")
    (ax,) = figure.axes
    assert [bar.get_width() for bar in ax.patches] == [57.0, 51.0, 66.0]
    assert [bar.get_x() for bar in ax.patches] == [0, 0, 0] and ax.get_xlim()[0] == 0
    assert [bar.get_facecolor()[:3] for bar in ax.patches] == [to_rgb(color) for color in (FIRST, OTHERS, OTHERS)]
    assert [tuple(line.get_xdata()) for line in ax.lines] == [(55.0, 60.0), (50.4, 55.0), (66.0, 66.0)]
    tops = [bar.get_y() for bar in ax.patches]
    assert tops == sorted(tops) and ax.yaxis_inverted()  # the first on top


def test_the_drawing_of_bars_holds_numbers_and_ratios():
    texts = set(texts_of(bars(TIMES, title="Forward", unit="ms", note="A machine, today.")))
    assert {"Forward", *TIMES, "A machine, today."} < texts
    assert {text for text in texts if text[-1:].isdigit() or text.endswith("ms")} == {
        *("57.0 ms", "51.0 ms", "66.0 ms", "1", "÷ 1.12", "× 1.16")
    }


def test_captions_explain_only_what_is_there():
    assert lines(STEPS, **DECODE).caption.endswith("the same number.")
    assert lines(STEPS, **DECODE, limit=LIMIT).caption.endswith("Dashed: a limit.")
    assert bars(TIMES, title="t", unit="ms").caption.endswith("The thin line is the spread.")
    assert bars({"a": 1.0}, title="t", unit="ms").caption.endswith("three times the first bar.")


LONG = "A title that goes on and on, until it has to be continued in the second line of the drawing"
NOTE = "A processor with a long name, 2 threads, PyTorch 2.13.0, " + "medians of 15 rounds, and quartiles; " * 3


@pytest.mark.parametrize(
    ("make", "args"),
    [
        (lines_figure, (*checked_curves(STEPS, LIMIT), "t", "x", "y", "")),
        (lines_figure, (*checked_curves(MANY, LIMIT), LONG, "keys in the cache", "milliseconds a step", NOTE)),
        (lines_figure, (*checked_curves({name: {1: 1, 2: 2} for name in MANY}, {}), "t", "x", "y", NOTE)),
        (bars_figure, (checked_bars(TIMES, None), LONG, "ms", NOTE)),
        (bars_figure, (checked_bars({name: 1e5 * (n + 1) for n, name in enumerate(MANY)}, None), "t", "GB/s", "")),
    ],
)
def test_no_text_is_cut_or_overlaps_another(make, args):
    figure, boxes = drawn(make, *args)
    for text, box in boxes.items():
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width, f"{text.get_text()!r} is cut"
        assert box.y0 >= 0 and box.y1 <= figure.bbox.height, f"{text.get_text()!r} is cut"
        assert text.get_size() >= 8.25, "smaller than 11 pixels"
    for (one, box), (other, its_box) in combinations(boxes.items(), 2):
        apart_across = box.x1 <= its_box.x0 or its_box.x1 <= box.x0
        apart_up = box.y1 <= its_box.y0 + 1 or its_box.y1 <= box.y0 + 1
        assert apart_across or apart_up, f"{one.get_text()!r} and {other.get_text()!r} overlap"


def test_every_curve_has_a_shape_of_its_own_and_a_colour_to_read():
    assert len({look["marker"] for look in LOOKS}) == len({look["color"] for look in LOOKS}) == MOST_CURVES
    for look in LOOKS:
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(look["color"])
        ]
        luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (luminance + 0.05) >= 4.5


@pytest.mark.parametrize(
    ("middles", "places"),
    [
        ([5.0], [5.0]),
        ([2.0, 8.0], [2.0, 8.0]),  # far apart: they stay
        ([5.0, 5.0], [4.5, 5.5]),  # on one place: as far down as up
        ([5.0, 5.0, 5.0], [4.0, 5.0, 6.0]),
        ([0.0, 0.2], [0.5, 1.5]),  # not below the bottom
        ([9.9, 10.0], [8.5, 9.5]),  # not above the top
    ],
)
def test_labels_move_as_little_as_they_must(middles, places):
    assert apart(middles, [1.0] * len(middles), 0.0, 10.0) == pytest.approx(places)


def test_labels_of_different_heights_do_not_overlap():
    assert apart([1.0, 1.0], [2.0, 1.0], 0.0, 3.0) == pytest.approx([1.0, 2.5])


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.012345, "0.0123"), (1.2, "1.20"), (65.25, "65.2"), (99.96, "100"), (12345, "12,300"), (1, "1.00")],
)
def test_numbers_have_three_digits(number, text):
    assert plain(number) == text


def test_sizes_ticks_and_ratios_are_written_as_people_do():
    assert [size(number) for number in (512, 1024, 1536, 32768, 0.5)] == ["512", "1k", "1,536", "32k", "0.500"]
    assert [tick(number) for number in (0.05, 1, 2000.0)] == ["0.05", "1", "2,000"]
    assert [ratio(factor) for factor in (1.0, 0.5, 12.0)] == ["× 1.00", "÷ 2.00", "× 12.0"]


@pytest.mark.parametrize(
    "make", [lambda: lines(STEPS, **DECODE, limit=LIMIT), lambda: bars(TIMES, title="t", unit="ms")]
)
def test_the_same_numbers_give_the_same_bytes_and_a_picture_that_a_notebook_shows(make):
    first, second = make(), make()
    assert isinstance(first, Picture) and first.svg == second.svg
    root = ElementTree.fromstring(first.svg)
    assert float(root.get("width").removesuffix("pt")) * 4 / 3 <= 910
    assert len(first.svg) < 40_000
    assert first._repr_html_().startswith("<figure><img alt=")


def test_other_numbers_give_another_drawing_and_other_words():
    """A plot that forgot to look at its data would pass every test of its form."""
    slower = {**STEPS, "folded": {k: k / 900 for k in KEYS}}
    assert lines(slower, **DECODE).svg != lines(STEPS, **DECODE).svg
    assert lines(slower, **DECODE).words != lines(STEPS, **DECODE).words
    slower = {**TIMES, "weight split": (52.0, 50.4, 55.0)}
    one, other = (bars(values, title="t", unit="ms") for values in (TIMES, slower))
    assert one.svg != other.svg and one.words != other.words


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: lines([1], **DECODE), TypeError, r"series must be a mapping, name -> {x: y}, got list\."),
        (lambda: lines({}, **DECODE), ValueError, "series has no curve: give at least one"),
        (lambda: lines({"a": [1, 2]}, **DECODE), TypeError, r"series\['a'\] must be a mapping, {x: y}, got list\."),
        (lambda: lines({"a": {}}, **DECODE), ValueError, r"series\['a'\] has no point: give at least one, {x: y}\."),
        (
            lambda: lines({"a": {1: 2, 2: 0}}, **DECODE),
            ValueError,
            r"series\['a'\]\[2\] must be finite and above 0, got 0: only such numbers have ratios\.",
        ),
        (lambda: lines({"a": {1: 2, 2: float("nan")}}, **DECODE), ValueError, r"\[2\] must be finite .*, got nan"),
        (lambda: lines({"a": {0: 2, 2: 1}}, **DECODE), ValueError, r"series\['a'\], an x, must be finite and above 0"),
        (lambda: lines({"a": {1: "2", 2: 1}}, **DECODE), TypeError, r"\[1\] must be a number, got '2' \(str\)\."),
        (lambda: lines({"a": {1: True, 2: 1}}, **DECODE), TypeError, r"must be a number, got True \(bool\)\."),
        (
            lambda: lines({str(n): {1: 2, 2: 1} for n in range(8)}, **DECODE),
            ValueError,
            "series has 8 curves: more than 7 can't be told apart, so draw two pictures",
        ),
        (lambda: lines(STEPS, **DECODE, limit={"b": {}}), ValueError, r"limit\['b'\] has no point"),
        (
            lambda: lines(STEPS, **DECODE, limit={"b": {1: 1}}),
            ValueError,
            r"limit\['b'\] has one point: a limit is a line",
        ),
        (
            lambda: lines(STEPS, **DECODE, limit={"folded": {1: 1, 2: 2}}),
            ValueError,
            "limit has the name 'folded', as a curve of series has: give it another one",
        ),
        (lambda: bars([1.0], title="t", unit="ms"), TypeError, "values must be a mapping, name -> number, got list"),
        (lambda: bars({}, title="t", unit="ms"), ValueError, "values is empty: give at least one"),
        (
            lambda: bars({"a": -1}, title="t", unit="ms"),
            ValueError,
            r"values\['a'\] must be finite and above 0, got -1",
        ),
        (
            lambda: bars({"a": (1, 2)}, title="t", unit="ms"),
            TypeError,
            r"values\['a'\] must be a number or \(middle, low, high\), got \(1, 2\)",
        ),
        (lambda: bars({"a": "123"}, title="t", unit="ms"), TypeError, r"must be a number or .*, got '123'"),
        (lambda: bars({"a": None}, title="t", unit="ms"), TypeError, r"must be a number or .*, got None"),
        (
            lambda: bars({"a": (1, 2, 3)}, title="t", unit="ms"),
            ValueError,
            r"must be \(middle, low, high\) in which low <= middle <= high, got \(1, 2, 3\)",
        ),
        (lambda: bars({"a": 1}, title="t", unit="ms", ratios=[1]), TypeError, "ratios must be a mapping, .*, got list"),
        (
            lambda: bars({"a": 1}, title="t", unit="ms", ratios={"b": 1}),
            ValueError,
            r"ratios are for \['b'\], values for \['a'\]: give one ratio for each value",
        ),
        (lambda: bars({"a": 1}, title="t", unit="ms", ratios={"a": 0}), ValueError, r"ratios\['a'\] must be finite"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
