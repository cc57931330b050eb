"""The mask of a sliding window with attention sinks."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def window_with_sinks(query_len, key_len, window, num_sinks):
    # -> bool (query, key), True = may attend
    key = torch.arange(key_len)
    # (query, 1): the last query has the last key
    position = torch.arange(query_len)[:, None] + key_len - query_len
    in_reach = (key > position - window) | (key < num_sinks)
    return in_reach & (key <= position)


EXERCISE = FunctionExercise(
    window_with_sinks,
    title="A window with sinks",
    difficulty=3,
    minutes=7,
    prompt=(
        "Write the mask of a sliding window with attention sinks, (query, key), True = may attend. A query may attend "
        "to its own token, to the `window - 1` tokens before it, and besides to the first `num_sinks` tokens of the "
        "text; never to a later token. There may be fewer queries than keys, when a cache holds the tokens before: "
        "the last query then belongs to the last key."
    ),
    hints=(
        "With 2 queries and 7 keys, the queries have the positions 5 and 6.",
        "Compare each key's position with the query's, `position`, of shape (query, 1): it must be larger than "
        "`position - window`, or smaller than `num_sinks`.",
        "And in every case `key <= position`: the first queries come before some of the sinks.",
    ),
    inputs={
        "more": lambda extra, window, num_sinks: extra + window + num_sinks,
        "key_len": lambda query_len, more: query_len + more,
    },
    calls=4,
    also=({"query_len": 20, "more": 0}, {"num_sinks": 0}),
    draw_edges=({"query_len": 1, "key_len": 1, "num_sinks": 0},),
    least={"query_len": 1, "window": 1, "num_sinks": 0},
    most={"key_len": 300, "window": 200},
    axes="query key",
    own_dtype=True,
    wrong="""
(key > position - window) | (key < num_sinks) => key > position - window
    a mask without the sinks
    ? Which keys may every query see, however far away they are?
- query_len => - key_len
    a mask aligned at the first key: query 0 is taken for token 0 [causal-top-left]
key <= position => key <= torch.arange(query_len)[:, None]
    a mask whose window is right, and whose causal part is aligned at the first key [causal-top-left]
key > position - window => key >= position - window
    a window one token too wide [window-off-by-one]
    ? Does the query's own token count as one of the window's keys?
position - window => position - window + 1
    a window one token too narrow [window-off-by-one]
    ? With window=1 and no sinks, which key is left to a token?
in_reach & (key <= position) => in_reach & ((key <= position) | (key < num_sinks))
    a mask in which sinks are visible before they were written [no-causal-mask]
    ? May token 0 see a sink at position 1?
< num_sinks => < min(num_sinks, 1)
    a mask with one sink, however many there should be
    ? Where do you use `num_sinks`?
position - window => position - window + num_sinks
    a window made smaller by the sinks
    ? Do the sinks count as keys of the window, or are they additional?
(key > position - window) | (key < num_sinks) => key <= position
    the causal mask, without a window
    ? Which keys are hidden?
~result
    the opposite mask, True where a key is hidden [mask-inverted]
""",
)
