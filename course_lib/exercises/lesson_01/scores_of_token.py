"""One token's scores by hand."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def scores_of_token(query, keys):  # (head_dim), (key, head_dim) -> (key)
    return torch.stack([(query * key).sum() for key in keys])


EXERCISE = FunctionExercise(
    scores_of_token,
    title="One token's scores by hand",
    difficulty=1,
    minutes=3,
    prompt="How well does the query of one token fit each key? Return one number for each key, not yet scaled.",
    hints=(
        "A score says how well one query fits one key: the sum of their products, number by number.",
        "Go through the keys one at a time and collect `query @ key`; or multiply once.",
        "`keys @ query` does it: (key, head_dim) @ (head_dim) -> (key).",
    ),
    sizes=(4, 12),  # with few keys all scores may happen to be positive
    also=({"head_dim": 1}, {"key": 1}),
    arguments={"query": "head_dim", "keys": "key head_dim"},
    axes="key",
    wrong="""
keys * query
    the products before they are added up
    ? What turns the products into one score?
(keys * query).mean(-1)
    the mean of the products instead of their sum
    ? Does a dot product divide by anything?
keys @ query / len(query) ** 0.5
    the scores after they were divided by the square root of the width: right, but one exercise too early
keys @ query / (keys.norm(dim=-1) * query.norm())
    the cosine of the angles: the lengths of the vectors are lost
(keys @ query).abs()
    the size of the scores without their sign
(keys @ query)[:1].expand(len(keys))
    the first key's score for every key
    ? In your loop, which key is compared each time?
(keys @ query)[:, None]
    the scores as a table of one column; one axis is enough
""",
)
