"""The test that catches a wrong window."""

from __future__ import annotations

from course_lib.exercises.answering.from_source import FromSource
from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator

WINDOWED = """
import torch

def windowed(weight, window, sinks, blocks):
    def code(x):
        for _ in range(blocks):
            rows = x @ weight
            position = torch.arange(x.shape[1])
            distance = position[:, None] - position
            keep = (distance >= 0) & ((distance < window) | (position < sinks))
            scores = (rows @ rows.transpose(1, 2)).masked_fill(~keep, -torch.inf)
            x = x + scores.softmax(-1) @ rows
        return x

    return code
"""


def window_probe(code, x):
    # code: (batch, token, width) -> the same shape; x -> int
    before = code(x)[:, -1]
    seen = 0
    for token in range(x.shape[1]):
        changed = x.clone()
        changed[:, token] += 1.0
        moved = (code(changed)[:, -1] - before).abs().max()
        seen += int(moved > 1e-9)
    return seen


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for about, sinks, blocks in (
        ("one block has a window", 0, 1),
        ("there are sinks besides the window", 2, 1),
        ("two blocks have a window", 0, 2),
        ("the window is wider than the text", 0, 1),
    ):
        batch, window, width = rng.sizes(3, 3, 7)
        num_tokens = 3 * window + 2 if "wider" not in about else window - 1
        weight = rng.normal(width, width, std=0.3 * width**-0.5)
        code = FromSource(WINDOWED, "windowed", (weight, window, sinks, blocks))
        cases.append(Case((code, rng.normal(batch, num_tokens, width)), about))
    return cases


EXERCISE = FunctionExercise(
    window_probe,
    title="Write the test that catches a wrong window",
    difficulty=3,
    minutes=8,
    prompt=(
        "Somebody hands you `code`, which maps (batch, token, width) to the same shape, and says that its attention "
        "has a window. You can't see inside. Return how many tokens of `x`, the last one included, have an influence "
        "on the output of the *last* token: change one token after the other, each time in an `x` that is otherwise "
        "as it was, and count those after whose change that output moves by more than 1e-9. For one block with the "
        "right window this is `window`."
    ),
    hints=(
        "The output before any change is `code(x)[:, -1]`. Keep it.",
        "`changed = x.clone()` in each turn of the loop, then `changed[:, token] += 1.0`.",
        "The largest absolute difference of `code(changed)[:, -1]` and the output before tells whether it moved.",
    ),
    draw=_draw,
    wrong="""
code(x)[:, -1] => code(x) && code(changed)[:, -1] => code(changed)
    the tokens that move any output: each moves its own
    ? Which row of the output is looked at?
range(x.shape[1]) => range(x.shape[1] - 1)
    the count without the last token, which sees itself
    ? Does the query's own token count as one of the window's keys?
changed = x.clone() => changed = x.clone() if token == 0 else changed
    the number of tokens from the first that has an influence to the last: those between are counted with it
    ? Does each run change one token alone, in a fresh copy of `x`, and is each counted for itself?
changed[:, token] += 1.0 => changed[:, :token] += 1.0
    the count if all tokens before are changed at once
    ? Which tokens does your slice change?
code(x)[:, -1] => code(x)[:, 0] && code(changed)[:, -1] => code(changed)[:, 0]
    one token, as at either end of the text: the first output depends on one, and the last token moves one
    ? Which token sees a whole window, and who moves its output?
return seen => return x.shape[1] - seen
    the number of tokens without an influence
    ? What is counted: the tokens that are seen, or those that aren't?
return seen => return min(seen, 3)
    a number that does not grow with the window
    ? Is a number written into your code?
""",
)
