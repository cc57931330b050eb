"""Draw the lines of an ordering exercise in a learner's order, with what the recorder saw of each."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from course_lib.pictures import Picture, draw_annotated_code
from course_lib.recorder import Recording, record
from course_lib.wording import listed

from .lines_run import FILE, LinesRun, run_lines

NOTE = "Each line in your order; below it the tensors that it made, as they were recorded."
EFFECTS = {
    "compute": "computed",
    "copy": "copied to new memory",
    "view": "a view: no element moved",
    "in-place": "changed in place",
}
OTHER = "not what this line makes in a right order"
TITLE = "Your order, as it was recorded"


def draw_order(
    own_order: str, lines: Mapping[str, str], solution: str, start: Mapping[str, Any], result: str
) -> Picture:
    """Draw what lines make in an order, until they fail, or until one makes something else than in a right order.

    Args:
        own_order: The learner's order.
        lines: Letter -> line.
        solution: An order that is right.
        start: Name -> value of what exists before the first line.
        result: The name whose value decides whether the order is right.
    """
    recording = record(run_lines, [lines[letter] for letter in own_order], start)
    own: LinesRun = recording.output
    marks = {}
    if own.error is not None:
        marks[len(own.made)] = f"it stops: {str(own.error).splitlines()[0].rstrip('.')}"
    right = _right_orders(lines, solution, start, result)
    if own.error is not None or not _same(own.value(result), next(iter(right.values())).value(result)):
        agreeing = max(_agreeing(own, own_order, order, run) for order, run in right.items())
        marks.setdefault(agreeing, OTHER)
    last = max(marks, default=len(own_order) - 1)
    drawn = [
        (f"{letter}  {lines[letter]}", _made(index, own, recording), marks.get(index, ""))
        for index, letter in enumerate(own_order[: last + 1])
    ]
    caption = _caption(bool(marks), len(own_order) - len(drawn))
    return draw_annotated_code(drawn, title=TITLE, above=NOTE, caption=caption)


def _caption(wrong: bool, left_out: int) -> str:
    if not wrong:
        return "Every line finds what it reads, and the result is right."
    rest = {0: "", 1: "; the line after these is left out"}
    return f"Begin at the first ✗{rest.get(left_out, f'; the {left_out} lines after these are left out')}."


def _right_orders(
    lines: Mapping[str, str], solution: str, start: Mapping[str, Any], result: str
) -> dict[str, LinesRun]:
    """Run the solution, and each order that gives the same when two lines beside each other are exchanged."""
    orders = [solution]
    for index in range(len(solution) - 1):
        one, two = solution[index : index + 2]
        orders.append(solution[:index] + two + one + solution[index + 2 :])
    runs = {order: run_lines([lines[letter] for letter in order], start) for order in orders}
    expected = runs[solution].value(result)
    return {order: run for order, run in runs.items() if run.error is None and _same(run.value(result), expected)}


def _agreeing(own: LinesRun, own_order: str, order: str, right: LinesRun) -> int:
    """Return the number of lines, from the first, that made the same as in a right order."""
    expected = dict(zip(order, right.made, strict=True))
    for index, made in enumerate(own.made):
        if not all(_same(made.get(name), value) for name, value in expected[own_order[index]].items()):
            return index
    return len(own.made)


def _made(index: int, run: LinesRun, recording: Recording) -> str:
    """Name the tensors that a line made, their shape and the effect of its operations."""
    if index >= len(run.made):
        return ""
    tensors = {name: value for name, value in run.made[index].items() if isinstance(value, Tensor)}
    shapes = list(dict.fromkeys(str(tuple(value.shape)) for value in tensors.values()))
    steps = [step for step in recording if step.file == FILE.format(index)]
    effects = list(dict.fromkeys(EFFECTS[step.effect] for step in steps))
    if EFFECTS["compute"] in effects:  # a product may be made of views, which are not the point
        effects = [EFFECTS["compute"]]
    return f"{listed(tensors)}: shape {listed(shapes)}, {listed(effects)}"


def _same(own: Any, right: Any) -> bool:
    if not isinstance(own, Tensor) or not isinstance(right, Tensor):
        return own is right
    return own.shape == right.shape and bool(own.isclose(right, equal_nan=True).all())
