"""All scores at once, scaled."""

from course_lib.exercises.function_exercise import FunctionExercise


def scaled_scores(queries, keys):  # (query, head_dim), (key, head_dim) -> (query, key)
    head_dim = queries.shape[-1]
    # (query, head_dim) @ (head_dim, key) -> (query, key)
    return (queries * head_dim**-0.5) @ keys.T


EXERCISE = FunctionExercise(
    scaled_scores,
    title="All scores at once, scaled",
    difficulty=1,
    minutes=4,
    prompt=(
        "The same for all queries in one product, divided by the square root of the width. There may be more "
        "keys than queries."
    ),
    hints=(
        "Row q of the table holds the scores of query q.",
        "A product takes rows of the left and columns of the right: the keys have to be transposed.",
        "`head_dim` is the last size of the queries, and the scores are divided by `head_dim**0.5`.",
    ),
    also=({"query": 1, "key": 1}, {"query": 1, "head_dim": 1}),
    special={"the scores are large": {"queries": lambda queries: 10 * queries, "keys": lambda keys: 10 * keys}},
    arguments={"queries": "query head_dim", "keys": "key head_dim"},
    axes="query key",
    gradients=("queries", "keys"),
    wrong="""
return (queries * head_dim**-0.5) @ keys.T => return (queries * head_dim ** (-0.5) @ keys.T).T
    the scores with queries and keys exchanged: a row must be one query
    ? Which of the two stands on the left of the product?
queries @ keys.reshape(keys.shape[1], keys.shape[0]) / queries.shape[1] ** 0.5
    the scores of keys cut anew by `view`, which moves no element
    ? `view` keeps the order of the elements in memory. Which row of the keys becomes a column?
keys. => queries.
    the queries compared with themselves [projection-reused]
    ? Which two arguments meet in the product?
""",
)
