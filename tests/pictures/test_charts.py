"""Charts of measured numbers: words and drawing from the same data, nothing overlapping, bad input refused in words."""

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from course_lib.pictures import Picture, bar_chart, count_chart, line_plot
from course_lib.pictures.charts.chart_drawing import COLORS, FIRST, MARKERS, OTHERS
from course_lib.pictures.charts.line_plot import MOST_CURVES
from course_lib.pictures.charts.measurements import length, ratio_text, three_digits

from .figure_checks import check_figure
from .picture_checks import TYPE, VALUE

KEYS = (1024, 2048, 4096, 8192)
STEPS = {"broadcast": {k: k / 20 for k in KEYS}, "folded": {k: k / 1000 for k in KEYS}}
LIMIT = {"reading once": {k: k / 1500 for k in KEYS}}
DECODE = {"title": "One decoding step", "xlabel": "keys", "ylabel": "ms a step"}
TIMES = {"wrapper": (57.0, 55.0, 60.0), "weight split": (51.0, 50.4, 55.0), "nn.MultiheadAttention": 66.0}
MANY = {f"a rather long name of a curve, number {n}": {k: (k + n) / 7 for k in KEYS} for n in range(MOST_CURVES)}


def texts_of(picture):
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture.svg)


@pytest.mark.slow
def test_words_of_curves_hold_their_ends_and_their_distance():
    assert line_plot(STEPS, **DECODE, limit=LIMIT, note="A machine, today.").description.split("\n") == [
        "One decoding step. Curves of ms a step against keys, both axes logarithmic.",
        "broadcast: 51.2 at 1k, 410 at 8k; that is 8.00 times as much for 8.00 times the x.",
        "folded: 1.02 at 1k, 8.19 at 8k; that is 8.00 times as much for 8.00 times the x.",
        "Dashed, a limit: reading once: 0.683 at 1k, 5.46 at 8k; that is 8.00 times as much for 8.00 times the x.",
        "At 8k keys, in multiples of reading once: broadcast 75.0 and folded 1.50.",
        "A machine, today.",
    ]


@pytest.mark.slow
def test_curves_are_compared_where_all_of_them_were_measured():
    shorter = {**STEPS, "broadcast": {1024: 60.0, 4096: 210.0}}
    assert (
        line_plot(shorter, **DECODE).description.split("\n")[-1]
        == "At 4k keys, in multiples of folded: broadcast 51.3."
    )
    assert "in multiples" not in line_plot({"a": {1: 1, 2: 2}, "b": {3: 1, 4: 2}}, **DECODE).description
    assert "in multiples" not in line_plot({"a": {1: 1, 2: 2}}, **DECODE).description


@pytest.mark.slow
def test_points_may_come_in_any_order():
    turned = {name: dict(reversed(curve.items())) for name, curve in STEPS.items()}
    assert line_plot(turned, **DECODE).svg == line_plot(STEPS, **DECODE).svg


@pytest.mark.slow
def test_the_drawing_of_curves_holds_names_ends_ticks_and_note():
    texts = texts_of(line_plot(STEPS, **DECODE, limit=LIMIT, note="A machine, today."))
    assert {"One decoding step", "ms a step", "keys", "A machine, today."} <= set(texts)
    assert {"broadcast: 410", "folded: 8.19", "reading once: 5.46"} <= set(texts)
    assert {"1k", "2k", "4k", "8k", "1", "10", "100"} <= set(texts)


@pytest.mark.slow
def test_curves_lie_where_their_numbers_are_and_differ_in_shape(axes):
    line_plot(STEPS, **DECODE, limit=LIMIT)
    (ax,) = axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    curves = [dict(zip(*line.get_data(), strict=True)) for line in ax.lines]
    assert curves == [*STEPS.values(), *LIMIT.values()]
    assert [line.get_marker() for line in ax.lines] == ["o", "s", "None"]
    assert [line.get_linestyle() for line in ax.lines] == ["-", "-", "--"]


@pytest.mark.slow
def test_limits_differ_in_their_dashes(axes):
    line_plot(STEPS, **DECODE, limit={name: {1: 1, 2: 2} for name in "abc"})
    looks = [line.get_linestyle() for line in axes[0].lines[2:]]
    dashes = {str(line._unscaled_dash_pattern) for line in axes[0].lines[2:]}
    assert looks == ["--"] * 3 and len(dashes) == 3


@pytest.mark.slow
def test_names_stand_in_the_order_in_which_the_curves_end(axes):
    line_plot({"low": {1: 1, 2: 2}, "high": {1: 3, 2: 9}, "point": {1: 5}}, **DECODE, limit={"least": {1: 0.5, 2: 1}})
    names = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert names == ["high: 9.00", "point: 5.00", "low: 2.00", "least: 1.00"]


SHARES = {"layer 0": {0: 0.25, 20: 0.5, 40: 0.4}, "layer 1": {0: 0.1, 20: 0.0, 40: 0.9}}
TRAINING = {"title": "Habits", "xlabel": "step", "ylabel": "weight", "logarithmic": False}


@pytest.mark.slow
def test_linear_axes_begin_at_zero_and_say_where_a_curve_is_highest(axes):
    picture = line_plot(SHARES, **TRAINING)
    assert picture.description.split("\n") == [
        "Habits. Curves of weight against step, both axes linear.",
        "layer 0: 0.250 at 0, 0.400 at 40; highest 0.500 at 20, lowest 0.250 at 0.",
        "layer 1: 0.100 at 0, 0.900 at 40; highest 0.900 at 40, lowest 0.00 at 20.",
    ]
    assert picture.caption == "Both axes are linear and begin at 0."
    (ax,) = axes
    assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")
    assert (ax.get_xlim()[0], ax.get_ylim()[0]) == (0, 0)


@pytest.mark.slow
def test_few_decades_get_more_ticks_and_many_points_fewer():
    texts = texts_of(line_plot({"a": {n: n for n in range(1, 41)}}, **DECODE))
    assert {"1", "2", "5", "10", "20"} <= set(texts)  # y
    assert {"6", "11", "36"} <= set(texts) and "7" not in texts  # x
    texts = texts_of(line_plot({"a": {7: 1e-3, 8: 2e4}}, **DECODE))
    assert "20" not in texts and {"0.001", "10", "10,000"} <= set(texts)


@pytest.mark.slow
def test_labels_of_a_logarithmic_axis_never_touch(axes):
    for points in ([3, 4, 5, 6, 550, 650, 750], [1, 1000, 1_000_000, 1_010_000], [0.001, 1e-2, 1e12]):
        line_plot({"a": dict.fromkeys(points, 1)}, **DECODE)
        ax = axes[-1]
        ax.figure.canvas.draw()
        shown = [label.get_window_extent() for label in ax.get_xticklabels()]
        assert len(shown) > 1 and all(label.x1 < other.x0 for label, other in pairwise(shown)), points


@pytest.mark.slow
def test_a_single_point_is_a_marker_and_does_not_grow():
    picture = line_plot(
        {"prefill": {256.4: 40.0}, "decode": {0.5: 8.0, 16.0: 30.0}}, title="t", xlabel="FLOP a byte", ylabel="GFLOP/s"
    )
    assert "prefill: 40.0 at 256." in picture.description
    assert {"1", "10", "100", "prefill: 40.0"} <= set(texts_of(picture))  # nothing was measured at whole numbers


def test_a_single_point_has_no_line(axes):
    line_plot({"a": {1: 1, 2: 2}, "b": {2: 1}}, **DECODE)
    assert [line.get_linestyle() for line in axes[0].lines] == ["-", "None"]


@pytest.mark.slow
def test_words_of_bars_hold_numbers_spread_and_ratios():
    assert bar_chart(TIMES, title="Forward", unit="ms", note="A machine, today.").description.split("\n") == [
        "Forward, in ms.",
        "wrapper: 57.0 (55.0 to 60.0), with which the others are compared.",
        "weight split: 51.0 (50.4 to 55.0), 1.12 times less.",
        "nn.MultiheadAttention: 66.0, 1.16 times as much.",
        "A machine, today.",
    ]
    assert bar_chart({"a": 3, "b": 3.001}, title="t", unit="ms").description.endswith("b: 3.00, as much.")


def test_ratios_may_be_given_where_they_were_measured_side_by_side():
    ratios = {"wrapper": 1.0, "weight split": 0.8, "nn.MultiheadAttention": 1.5}
    picture = bar_chart(TIMES, title="Forward", unit="ms", ratios=ratios)
    assert "1.25 times less" in picture.description and "1.50 times as much" in picture.description
    assert {"1", "÷ 1.25", "× 1.50"} <= set(texts_of(picture))


def test_counts_stand_for_themselves():
    picture = count_chart({"no-softmax": 12, "wrong-scale": 1}, title="Mistakes", noun="student", note="Of 30.")
    assert picture.description.split("\n") == [
        "Mistakes.",
        "no-softmax: 12 students.",
        "wrong-scale: 1 student.",
        "Of 30.",
    ]
    assert {"12 students", "1 student"} <= set(texts_of(picture)) and "× " not in "".join(texts_of(picture))
    with pytest.raises(
        TypeError, match=r"values\['a'\] is 1\.5: counts are integers; `bar_chart` draws other numbers\."
    ):
        count_chart({"a": 1.5}, title="t", noun="student")


def test_bars_begin_at_zero_and_end_at_their_numbers(axes):
    bar_chart(TIMES, title="Forward", unit="ms")
    (ax,) = axes
    assert [bar.get_width() for bar in ax.patches] == [57.0, 51.0, 66.0]
    assert [bar.get_x() for bar in ax.patches] == [0, 0, 0] and ax.get_xlim()[0] == 0
    assert [bar.get_facecolor()[:3] for bar in ax.patches] == [to_rgb(color) for color in (FIRST, OTHERS, OTHERS)]
    (intervals,) = ax.collections
    ends = [tuple(x for x, _ in line) for line in intervals.get_segments()]
    assert ends == [pytest.approx(pair) for pair in ((55.0, 60.0), (50.4, 55.0), (66.0, 66.0))]
    tops = [bar.get_y() for bar in ax.patches]
    assert tops == sorted(tops) and ax.yaxis_inverted()  # the first on top


def test_the_drawing_of_bars_holds_numbers_and_ratios():
    texts = set(texts_of(bar_chart(TIMES, title="Forward", unit="ms", note="A machine, today.")))
    assert {"Forward", *TIMES, "A machine, today."} < texts
    assert {text for text in texts if text[-1:].isdigit() or text.endswith("ms")} == {
        *("57.0 ms", "51.0 ms", "66.0 ms", "1", "÷ 1.12", "× 1.16")
    }


@pytest.mark.slow
def test_captions_explain_only_what_is_there():
    assert line_plot(STEPS, **DECODE).caption.endswith("the same number.")
    assert line_plot(STEPS, **DECODE, limit=LIMIT).caption.endswith("Dashed: a limit.")
    assert bar_chart(TIMES, title="t", unit="ms").caption.endswith("The thin line is the spread.")
    assert bar_chart({"a": 1.0}, title="t", unit="ms").caption.endswith("three times the first bar.")


LONG = "A title that goes on and on, until it has to be continued in the second line of the drawing"
NOTE = "A processor with a long name, 2 threads, PyTorch 2.13.0, " + "medians of 15 rounds, and quartiles; " * 3


CHARTS = {
    "curves": lambda: line_plot(STEPS, **DECODE, limit=LIMIT),
    "long names": lambda: line_plot(MANY, title=LONG, xlabel="keys", ylabel="ms", limit=LIMIT, note=NOTE),
    "one place": lambda: line_plot({name: {1: 1, 2: 2} for name in MANY}, **DECODE, note=NOTE),
    "linear": lambda: line_plot(SHARES, **TRAINING),
    "points": lambda: line_plot({"a": {0.7: 6.4}, "b": {500.3: 93.4}}, **DECODE, limit={"c": {0.3: 12, 1000: 132}}),
    "many x": lambda: line_plot({"a": {n: n for n in range(1, 41)}}, **DECODE),
    "decades": lambda: line_plot({"a": {1: 1e-9, 1e9: 1e9}}, **DECODE),
    "one decade": lambda: line_plot({"a": {1: 145, 2: 150, 32: 251}}, **DECODE),
    "bars": lambda: bar_chart(TIMES, title=LONG, unit="ms", note=NOTE),
    "long bars": lambda: bar_chart({name: 1e5 * (n + 1) for n, name in enumerate(MANY)}, title="t", unit="GB/s"),
    "one bar": lambda: bar_chart({"a": 1.0}, title="t", unit="ms"),
    "counts": lambda: count_chart({"no-softmax (lesson 01)": 12, "b": 1}, title=LONG, noun="student", note=NOTE),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("draw", CHARTS.values(), ids=CHARTS)
def test_no_text_is_cut_or_overlaps_another(draw, figures):
    draw()
    check_figure(figures[0], smallest=8.25)


def test_a_text_that_is_cut_would_be_seen(figures, monkeypatch):
    """The check would pass everything if it looked at no text."""
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: save(figure, file, format="svg"))
    bar_chart(TIMES, title="Forward", unit="ms")
    with pytest.raises(AssertionError, match="is cut"):
        check_figure(figures[0])


def test_every_curve_has_a_marker_of_its_own_and_a_colour_to_read():
    assert len(set(MARKERS)) == len(set(COLORS)) == MOST_CURVES
    for color in COLORS:
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
        luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (luminance + 0.05) >= 4.5


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.012345, "0.0123"), (1.2, "1.20"), (65.25, "65.2"), (99.96, "100"), (12345, "12,300"), (1, "1.00")],
)
def test_numbers_have_three_digits(number, text):
    assert three_digits(number) == text


def test_lengths_and_ratios_are_written_as_people_do():
    assert [length(number) for number in (512, 1024, 1536, 32768, 0.5)] == ["512", "1k", "1,536", "32k", "0.500"]
    assert [ratio_text(factor) for factor in (1.0, 0.5, 12.0)] == ["× 1.00", "÷ 2.00", "× 12.0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [lambda: line_plot(STEPS, **DECODE, limit=LIMIT), lambda: bar_chart(TIMES, title="t", unit="ms")]
)
def test_the_same_numbers_give_the_same_bytes_and_a_picture_that_a_notebook_shows(make):
    first, second = make(), make()
    assert isinstance(first, Picture) and first.svg == second.svg
    root = ElementTree.fromstring(first.svg)
    assert float(root.get("width")) <= 910
    assert len(first.svg) < 40_000
    assert first._repr_html_().startswith("<figure><img alt=")


@pytest.mark.slow
def test_other_numbers_give_another_drawing_and_other_words():
    """A plot that forgot to look at its data would pass every test of its form."""
    slower = {**STEPS, "folded": {k: k / 900 for k in KEYS}}
    assert line_plot(slower, **DECODE).svg != line_plot(STEPS, **DECODE).svg
    assert line_plot(slower, **DECODE).description != line_plot(STEPS, **DECODE).description
    slower = {**TIMES, "weight split": (52.0, 50.4, 55.0)}
    one, other = (bar_chart(values, title="t", unit="ms") for values in (TIMES, slower))
    assert one.svg != other.svg and one.description != other.description


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: line_plot([1], **DECODE), TYPE, r"series must be a mapping, name -> {x: y}, got list\."),
        (lambda: line_plot({}, **DECODE), VALUE, "series is empty: give at least one, name -> {x: y}"),
        (lambda: line_plot({"a": [1, 2]}, **DECODE), TYPE, r"series\['a'\] must be a mapping, {x: y}, got list\."),
        (lambda: line_plot({"a": {}}, **DECODE), VALUE, r"series\['a'\] is empty: give at least one, {x: y}\."),
        (
            lambda: line_plot({"a": {1: 2, 2: 0}}, **DECODE),
            VALUE,
            r"series\['a'\]\[2\] must be finite and above 0, got 0: only such numbers have ratios\.",
        ),
        (lambda: line_plot({"a": {1: 2, 2: float("nan")}}, **DECODE), VALUE, r"\[2\] must be finite .*, got nan"),
        (lambda: line_plot({"a": {0: 2, 2: 1}}, **DECODE), VALUE, r"series\['a'\], an x, must be finite and above 0"),
        (
            lambda: line_plot({"a": {1: 2, 2: -1}}, **TRAINING),
            VALUE,
            r"series\['a'\]\[2\] must be finite and 0 or above, got -1: the axes begin at 0\.",
        ),
        (lambda: line_plot({"a": {1: "2", 2: 1}}, **DECODE), TYPE, r"\[1\] must be a number, got '2' \(str\)\."),
        (lambda: line_plot({"a": {1: True, 2: 1}}, **DECODE), TYPE, r"must be a number, got True \(bool\)\."),
        (
            lambda: line_plot({str(n): {1: 2, 2: 1} for n in range(8)}, **DECODE),
            VALUE,
            "series has 8 curves: more than 7 can't be told apart, so draw two pictures",
        ),
        (lambda: line_plot(STEPS, **DECODE, limit={"b": {}}), VALUE, r"limit\['b'\] is empty"),
        (
            lambda: line_plot(STEPS, **DECODE, limit={"b": {1: 1}}),
            VALUE,
            r"limit\['b'\] has one point: a limit is a line",
        ),
        (
            lambda: line_plot(STEPS, **DECODE, limit={"folded": {1: 1, 2: 2}}),
            VALUE,
            "limit has the name 'folded', as a curve of series has: give it a different one",
        ),
        (lambda: bar_chart([1.0], title="t", unit="ms"), TYPE, "values must be a mapping, name -> number, got list"),
        (lambda: bar_chart({}, title="t", unit="ms"), VALUE, "values is empty: give at least one"),
        (
            lambda: bar_chart({"a": -1}, title="t", unit="ms"),
            VALUE,
            r"values\['a'\] must be finite and above 0, got -1",
        ),
        (
            lambda: bar_chart({"a": (1, 2)}, title="t", unit="ms"),
            TYPE,
            r"values\['a'\] must be a number or \(middle, low, high\), got \(1, 2\)",
        ),
        (lambda: bar_chart({"a": "123"}, title="t", unit="ms"), TYPE, r"must be a number or .*, got '123'"),
        (lambda: bar_chart({"a": None}, title="t", unit="ms"), TYPE, r"must be a number or .*, got None"),
        (
            lambda: bar_chart({"a": (1, 2, 3)}, title="t", unit="ms"),
            VALUE,
            r"must be \(middle, low, high\) in which low <= middle <= high, got \(1, 2, 3\)",
        ),
        (lambda: bar_chart({"a": 1}, title="t", unit="ms", ratios=[1]), TYPE, "ratios must be a mapping, .*, got list"),
        (
            lambda: bar_chart({"a": 1}, title="t", unit="ms", ratios={"b": 1}),
            VALUE,
            r"ratios are for \['b'\], values for \['a'\]: give one ratio for each value",
        ),
        (lambda: bar_chart({"a": 1}, title="t", unit="ms", ratios={"a": 0}), VALUE, r"ratios\['a'\] must be finite"),
    ],
)
def test_bad_input_is_refused_in_words(call, error, words):
    with pytest.raises(error, match=words):
        call()
