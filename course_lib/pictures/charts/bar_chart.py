"""Bar charts of measured numbers with their ratios, and of counts."""

from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real

from course_lib.pictures.figures import figure_svg
from course_lib.pictures.picture import Picture
from course_lib.wording import counted

from .measurements import Bar, check_mapping, positive, ratio_text, three_digits


def bar_chart(
    values: Mapping[str, float | Sequence[float]],
    *,
    title: str,
    unit: str,
    ratios: Mapping[str, float] | None = None,
    note: str = "",
) -> Picture:
    """Draw measured numbers side by side, each compared with the first.

    Args:
        values: name -> number above 0, or name -> (middle, low, high), such as a median between two quartiles, which
            are drawn as a thin line.
        title: the title above the drawing.
        unit: of the numbers, such as "ms".
        ratios: name -> multiple of the first, if it was measured side by side; computed from the values if None.
        note: where and when the numbers were measured, written below the drawing.

    Raises:
        ValueError: If values is empty, a number is not finite and above 0, a middle lies outside its interval, or
            the names in ratios differ from those in values.
        TypeError: If values or ratios is not a mapping, or a value is neither a number nor three of them.

    Example:
        >>> print(bar_chart({"slow": 6.0, "fast": (2.0, 1.5, 2.5)}, title="Two ways", unit="ms").description)
        Two ways, in ms.
        slow: 6.00, with which the others are compared.
        fast: 2.00 (1.50 to 2.50), 3.00 times less.
    """
    bars = _bars(values)
    first = next(iter(bars.values())).middle
    ratios = {name: bar.middle / first for name, bar in bars.items()} if ratios is None else ratios
    check_mapping("ratios", ratios, "name -> number")
    if ratios.keys() != values.keys():
        raise ValueError(f"ratios are for {list(ratios)}, values for {list(values)}: give one ratio for each value.")
    factors = [positive(f"ratios[{name!r}]", ratios[name]) for name in bars]
    compared = ["with which the others are compared", *map(_compared, factors[1:])]
    lines = [
        f"{name}: {three_digits(bar.middle)}{_interval(bar)}, {words}."
        for (name, bar), words in zip(bars.items(), compared, strict=True)
    ]
    caption = f"{ratio_text(1 / 3)} means a third of the first bar, {ratio_text(3)} means three times the first bar."
    caption += " The thin line is the spread." if any(map(_interval, bars.values())) else ""
    texts = ["1", *map(ratio_text, factors[1:])]
    numbers = [f"{three_digits(bar.middle)} {unit}" for bar in bars.values()]
    return _picture(bars, numbers, texts, title, note, f"{title}, in {unit}.", *lines, caption)


def count_chart(values: Mapping[str, int], *, title: str, noun: str, note: str = "") -> Picture:
    """Draw how often things were counted, as bars from zero in the given order.

    Args:
        values: name -> an integer above 0.
        title: the title above the drawing.
        noun: what was counted, in the singular, such as "student".
        note: text below the drawing.

    Raises:
        ValueError: If values is empty, or a value is not above 0.
        TypeError: If values is not a mapping, or one of them is not an integer.

    Example:
        >>> print(count_chart({"no-softmax": 12}, title="Mistakes", noun="student").description)
        Mistakes.
        no-softmax: 12 students.
    """
    bars = _bars(values)
    for name, value in values.items():
        if not isinstance(value, int):
            raise TypeError(f"values[{name!r}] is {value!r}: counts are integers; `bar_chart` draws other numbers.")
    numbers = [counted(value, noun) for value in values.values()]
    lines = [f"{name}: {number}." for name, number in zip(values, numbers, strict=True)]
    return _picture(bars, numbers, [], title, note, f"{title}.", *lines, f"Each bar is a number of {noun}s.")


def _picture(
    bars: Mapping[str, Bar], labels: Sequence[str], ratios: Sequence[str], title: str, note: str, *lines: str
) -> Picture:
    """Draw bars with texts at their ends; lines are the description, and the last one is the caption."""
    from .chart_drawing import draw_bars

    svg = figure_svg(partial(draw_bars, bars, labels, ratios, title, note), [*bars, *labels, title, note])
    *words, caption = lines
    return Picture(svg=svg, description="\n".join(filter(None, [*words, note])), caption=caption)


def _compared(factor: float) -> str:
    times = three_digits(max(factor, 1 / factor))
    if times == "1.00":
        return "as much"
    return f"{times} times {'less' if factor < 1 else 'as much'}"


def _interval(bar: Bar) -> str:
    return f" ({three_digits(bar.low)} to {three_digits(bar.high)})" if bar.low < bar.high else ""


def _bars(values: Mapping[str, float | Sequence[float]]) -> dict[str, Bar]:
    check_mapping("values", values, "name -> number")
    return {name: _bar(f"values[{name!r}]", value) for name, value in values.items()}


def _bar(where: str, value: float | Sequence[float]) -> Bar:
    if isinstance(value, Real):
        return Bar(*[positive(where, value)] * 3)
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != 3:
        raise TypeError(f"{where} must be a number or (middle, low, high), got {value!r}.")
    bar = Bar(*(positive(where, number) for number in value))
    if not bar.low <= bar.middle <= bar.high:
        raise ValueError(f"{where} must be (middle, low, high) in which low <= middle <= high, got {value!r}.")
    return bar
