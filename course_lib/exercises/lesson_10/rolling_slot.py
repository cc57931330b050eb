"""Find a token in a rolling cache."""

from __future__ import annotations

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def rolling_slot(position, window, num_sinks):  # three ints -> int
    if position < num_sinks:
        return position
    return num_sinks + (position - num_sinks) % window


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for sinks, window in [*rng.size_rows(3, 2, 2, 8), (0, 2 + rng.integer(6))]:
        first = sinks + window + rng.integer(3 * window)
        edges = 0, max(0, sinks - 1), sinks, sinks + window - 1  # the first and the last sink, then the other slots
        cases += [Case((position, window, sinks)) for position in (*range(first, first + window), *edges)]
    return rng.shuffled(cases)


EXERCISE = FunctionExercise(
    rolling_slot,
    title="The slot of a token",
    difficulty=1,
    minutes=2,
    prompt=(
        "A rolling cache has `num_sinks + window` slots. The first `num_sinks` tokens stay in the first slots for "
        "ever. The tokens after them fill the other slots in order and then begin again at the first of these, so "
        "that each overwrites the token one window before it. In which slot is the token at `position`? All are "
        "counted from 0."
    ),
    hints=(
        "With window=3 and num_sinks=2, the tokens 0 to 7 go into the slots 0, 1, 2, 3, 4, 2, 3, 4.",
        "Count a token that is no sink from the first such token: `position - num_sinks`.",
        "Its place in the circle is that `% window`, and the circle begins at slot `num_sinks`.",
    ),
    draw=_draw,
    least={"position": 0, "window": 1, "num_sinks": 0},
    most={"position": 100_000},
    wrong="""
position % window
    a circle without sinks: position % window
    ? Which slots must never be overwritten?
position % (window + num_sinks)
    a circle over all slots, those of the sinks included
    ? Which slots must never be overwritten?
- num_sinks => - window
    a circle that the sinks are not counted out of: num_sinks + position % window
    ? Into which slot goes the first token that is no sink?
num_sinks + (position - num_sinks) % window => (position - num_sinks) % window
    a circle that begins at slot 0, over the sinks
    ? Which slots must never be overwritten?
position < num_sinks => False
    the rule of the circle for the sinks, too
    ? In which slot is token 0 if there are sinks?
position
    the position itself: the slot of a cache that keeps everything
    ? How many slots are there?
min(position, num_sinks + window - 1)
    the last slot for every token behind the first circle: old tokens would have to move
    ? Which token is overwritten by the new one?
result + 1
    slots counted from 1
    ? From what number are the slots counted?
""",
)
