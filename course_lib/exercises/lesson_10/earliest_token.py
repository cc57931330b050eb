"""How far a stack of layers reaches."""

from __future__ import annotations

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def earliest_token(position, window, layers):
    # int, int, string such as "LLLLLG" -> int
    if "G" in layers:
        return 0
    return max(0, position - len(layers) * (window - 1))


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for count, window in rng.size_rows(4, 2, 2, 8):
        far = count * window + 5 + rng.integer(20)
        cases += [Case((far, window, "L" * count)), Case((1 + rng.integer(window - 1), window, "L" * count))]
    count, window = rng.sizes(2, 2, 8)
    far = 2 * (count + 1) * window
    cases.append(Case((far, window, "L" * count + "G"), "the last layer attends to all tokens"))
    cases.append(Case((far + 1, window, "G" + "L" * count), "the first layer attends to all tokens"))
    cases.append(Case((far + 2, window, "L" * count + "G" + "LL"), "a layer in between attends to all tokens"))
    cases += [Case((far, window, layers)) for layers in ("L", "G", "GG")] + [Case((far, 1, "LG"))]
    return cases


EXERCISE = FunctionExercise(
    earliest_token,
    title="Local and global layers",
    difficulty=2,
    minutes=5,
    prompt=(
        "In Gemma 3, five layers with a sliding window, called local, are followed by a global one, which attends to "
        'all tokens before. `layers` has a letter per layer, from the first to the last: "L" is local, "G" is '
        "global. In a local layer a token attends to `window` keys, its own included. What is the position of the "
        "earliest token that can have an influence on the last layer's output at `position`?"
    ),
    hints=(
        "A window of 3 reaches two tokens back. And from there, the layer below reaches two tokens back again.",
        "A global layer reaches token 0, wherever it is in the stack.",
        "There is no token before 0: `max(0, ...)`.",
    ),
    draw=_draw,
    least={"position": 0, "window": 1},
    most={"position": 100_000},
    wrong="""
1 => 0
    layers that reach `window` tokens back: the query's own token is counted as one of the others [window-off-by-one]
    ? How far back does a layer with window=1 reach?
0 if layers[-1] == 'G' else max(0, position - window + 1)
    the reach of the last layer alone
    ? What did the layer below put into the tokens that this one sees?
0 if 'G' in layers else max(0, position - window + 1)
    the reach of a single layer
    ? What did the layer below put into the tokens that this one sees?
max(0, position - layers.count('L') * (window - 1))
    global layers skipped
    ? Which token does a global layer reach?
"G" in layers => False
    global layers taken for local ones
    ? Which token does a global layer reach?
0 if 'G' in layers else position - len(layers) * (window - 1)
    a position before the first token
    ? What is the smallest position that there is?
position - result
    how many tokens it reaches back, not where that is
    ? Is a distance asked for, or a position?
0 if 'G' in (layers[0], layers[-1]) else max(0, position - len(layers) * (window - 1))
    the reach of the global layers that are first or last, not of one in between
    ? Which token does a global layer reach, wherever it is?
""",
)
