"""Test whether scores depend on the distance alone."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def diagonal_range(scores):  # (query, key) -> one number
    num_queries, num_keys = scores.shape
    largest = torch.tensor(0.0, dtype=scores.dtype)
    for offset in range(1 - num_queries, num_keys):
        same_distance = scores.diagonal(offset)
        largest = torch.maximum(largest, same_distance.max() - same_distance.min())
    return largest


def _as_number(result: object, *_: object) -> object:
    return result.item() if isinstance(result, torch.Tensor) and result.dim() == 0 else result


EXERCISE = FunctionExercise(
    diagonal_range,
    title="Write the test that catches it",
    difficulty=2,
    minutes=6,
    prompt=(
        "`scores` holds the scores of one query and one key, each put at every position: (query, key). If they depend "
        "on the distance alone, each diagonal holds one number. Return how far two scores on the *same* diagonal are "
        "from each other at most: 0 for a right rotation, and more for one that isn't."
    ),
    hints=(
        "`scores.diagonal(offset)` is a diagonal: 0 is the main one, positive numbers lie above it, negative below.",
        "There are `num_queries + num_keys - 1` diagonals, from `1 - num_queries` to `num_keys - 1`.",
        "Of each diagonal take `max() - min()`, and of all these the largest.",
    ),
    inputs={"scores": "query key"},
    calls=3,
    special={
        "every diagonal holds one number": {
            "scores": lambda rng, query, key: rng.normal(query + key)[
                torch.arange(query)[:, None] - torch.arange(key) + key
            ]
        },
        "scores differ more, the farther the key": {
            "scores": lambda rng, query, key: (
                rng.normal(query, key) * (torch.arange(query)[:, None] - torch.arange(key)).abs()
            )
        },
    },
    arguments={"scores": "query key"},
    extract=_as_number,
    wrong="""
scores.max() - scores.min()
    how far any two scores are from each other
    ? Which scores have the same distance between query and key?
range(1 - num_queries, num_keys) => range(num_keys)
    the largest difference on the main diagonal and above it
    ? Where do the scores of a query stand that comes after its key?
range(1 - num_queries, num_keys) => range(1 - num_queries, 1)
    the largest difference on the main diagonal and below it
    ? Which distances does your loop leave out?
range(1 - num_queries, num_keys) => range(1)
    the largest difference on the main diagonal alone
    ? Which distances does your loop leave out?
scores.diagonal(offset) => scores.flip(1).diagonal(offset)
    the largest difference on the other diagonals, from the upper right to the lower left
    ? Along which diagonal is the distance the same?
torch.maximum(largest, same_distance.max() - same_distance.min()) => largest + same_distance.max() - same_distance.min()
    the sum of all differences; asked for is the largest
    ? What should your loop keep of the diagonals before?
torch.maximum(largest, same_distance.max() - same_distance.min()) => torch.maximum(largest, same_distance.std(correction=0))
    the largest standard deviation; asked for is the largest difference of two scores
    ? How far apart are the largest and the smallest score of a diagonal?
(scores.max(0).values - scores.min(0).values).max()
    the largest difference within a column: there the distances differ
    ? Which scores have the same distance between query and key?
(scores.max(1).values - scores.min(1).values).max()
    the largest difference within a row: there the distances differ
    ? Which scores have the same distance between query and key?
""",
)
