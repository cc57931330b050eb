"""Scores of all heads at once."""

from course_lib.exercises.function_exercise import FunctionExercise


def scores_by_head(queries, keys):
    # (batch, head, query, head_dim), (batch, head, key, head_dim) -> (b, h, q, k)
    head_dim = queries.shape[-1]
    # (b, h, q, d) @ (b, h, d, k) -> (b, h, q, k)
    return (queries * head_dim**-0.5) @ keys.transpose(2, 3)


EXERCISE = FunctionExercise(
    scores_by_head,
    title="Scores of all heads at once",
    difficulty=2,
    minutes=4,
    prompt=(
        "Every query of a head meets every key of the same head. Scaled, as in the lesson. There may be more keys than "
        "queries."
    ),
    hints=(
        "`@` multiplies the last two axes and leaves batch and head alone.",
        "Turn the keys in their last two axes: `keys.transpose(2, 3)`.",
        "Scale by the width of one head, the last size of the queries.",
    ),
    also=({"head": 1}, {"batch": 1, "query": 1}, {"head_dim": 1}),
    arguments={"queries": "batch head query head_dim", "keys": "batch head key head_dim"},
    axes="batch head query key",
    gradients=("queries", "keys"),
    wrong="""
head_dim**-0.5 => (queries.shape[1] * head_dim) ** -0.5
    scores divided by the root of the width over all heads [wrong-scale]
result.transpose(2, 3)
    scores in which queries and keys are exchanged: (batch, head, key, query)
    ? Which of the two stands on the left of the product?
queries @ keys.reshape(*keys.shape[:2], keys.shape[3], keys.shape[2]) * queries.shape[3] ** (-0.5)
    the scores of keys cut anew by `view`, which moves no element
    ? `view` keeps the order of the elements in memory. Which row of the keys becomes a column?
result.sum(1, keepdim=True).expand_as(result)
    the sum of all heads' scores [heads-share-scores]
result.sum(1)
    the scores of all heads added up, without an axis of heads [heads-share-scores]
result[:, :1].expand_as(result)
    the scores of head 0 for every head [heads-share-scores]
""",
)
