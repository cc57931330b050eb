"""Scores with positions that are counted within the cache."""

from __future__ import annotations

import torch

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator
from course_lib.exercises.lesson_07.rotary_table import rotary_table
from course_lib.exercises.lesson_07.rotate import rotate

GIVEN = """\
def rotate(x, cos, sin):  # (head, token, head_dim), 2 x (token, pair) -> as x
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)"""


def streaming_scores(query, keys, cos, sin):
    # (head, 1, d), (head, kept, d), 2 x (place, pair) -> (head, 1, kept)
    kept = keys.shape[1]
    keys = rotate(keys, cos[:kept], sin[:kept])
    query = rotate(query, cos[kept - 1 : kept], sin[kept - 1 : kept])
    return query @ keys.transpose(1, 2) * query.shape[-1] ** -0.5


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for heads, pairs, kept, more in rng.size_rows(4, 4, 2, 9):
        cos, sin = rotary_table(kept + more, 2 * pairs, 10.0)
        query, keys = rng.normal(heads, 1, 2 * pairs, std=2.0), rng.normal(heads, kept, 2 * pairs)
        cases.append(Case((query, keys, cos, sin)))
    cos, sin = rotary_table(3, 4, 10.0)
    cases.append(Case((torch.ones(2, 1, 4).double(), rng.normal(2, 1, 4), cos, sin), "the cache holds one token"))
    return cases


EXERCISE = FunctionExercise(
    streaming_scores,
    title="Positions within the cache",
    difficulty=3,
    minutes=7,
    given=GIVEN,
    prompt=(
        "StreamingLLM keeps its keys *unrotated* and counts positions within the cache: the oldest token that is kept, "
        "a sink, is at place 0, the next one at place 1, and so on, whatever their positions in the text were. The "
        "newest token is the last of `keys` and the query's own. Return the scaled scores of the query, (head, 1, "
        "kept). `cos` and `sin` are tables of rotations with a row for each place, and may have more rows than are "
        "needed."
    ),
    hints=(
        "Rotate the keys by the first `kept` rows of the tables.",
        "The query belongs to the last of the keys. Which row is that?",
        "`cos[kept - 1 : kept]` is that row and keeps its axis; `query @ keys.transpose(1, 2)` comes after both "
        "rotations.",
    ),
    draw=_draw,
    arguments={"query": "head 1 head_dim", "keys": "head kept head_dim", "cos": "place pair", "sin": "place pair"},
    axes="head 1 kept",
    fixed="head_dim pair kept place",
    wrong="""
cos[kept - 1 : kept], sin[kept - 1 : kept] => cos[:1], sin[:1]
    scores of a query at place 0, where nothing is rotated
    ? The query is the newest token's. At which place is that?
cos[kept - 1 : kept], sin[kept - 1 : kept] => cos[-1:], sin[-1:]
    scores of a query at the last row of the table, however few tokens are kept
    ? How many rows of the table are in use?
cos[kept - 1 : kept], sin[kept - 1 : kept] => cos[kept : kept + 1], sin[kept : kept + 1]
    scores of a query one place behind the newest key
    ? Is the newest token one of `keys`? At which place does it stand there?
keys = rotate(keys, cos[:kept], sin[:kept]) => pass
    scores with keys that are not rotated
    ? The cache holds the keys unrotated. Who rotates them?
cos[:kept], sin[:kept] => cos[-kept:], sin[-kept:]
    scores with keys at the last rows of the table
    ? At which place is the oldest token that is kept?
cos[:kept], sin[:kept] => cos[:kept].flip(0), sin[:kept].flip(0)
    scores with keys whose places are counted from the newest
    ? At which place is the oldest token that is kept?
query @ keys.transpose(1, 2) * query.shape[-1] ** -0.5 => query @ keys.transpose(1, 2)
    scores that are not scaled [missing-scale]
    ? By what are the scores divided before the softmax?
""",
)
