"""All heads ask one set of keys."""

from course_lib.exercises.function_exercise import FunctionExercise


def multi_query(queries, keys, values):
    # (batch, head, query, head_dim), 2 x (batch, key, head_dim) -> (b, h, q, d)
    scaled = queries * queries.shape[-1] ** -0.5
    # (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k)
    weights = (scaled @ keys[:, None].transpose(2, 3)).softmax(dim=-1)
    return weights @ values[:, None]  # (b, h, q, k) @ (b, 1, k, d) -> (b, h, q, d)


EXERCISE = FunctionExercise(
    multi_query,
    title="All heads ask one set of keys",
    difficulty=2,
    minutes=4,
    prompt=(
        "Queries have heads, keys and values have none: all heads ask the same ones. Scaled, without a mask. There "
        "may be more keys than queries, or fewer."
    ),
    hints=(
        "Keys and values come without an axis of heads. Give them one of size 1: `keys[:, None]`.",
        "A product broadcasts an axis of size 1: (b, h, q, d) @ (b, 1, d, k) -> (b, h, q, k).",
        "Multiply the scores by head_dim ** -0.5, take softmax over the keys, then `weights @ values[:, None]`.",
    ),
    std=1.5,
    also=({"head": 1}, {"batch": 1, "query": 1}, {"head_dim": 1}),
    arguments={
        "queries": "batch head query head_dim",
        "keys": "batch key head_dim",
        "values": "batch key head_dim",
    },
    axes="batch head query head_dim",
    gradients=("queries", "keys", "values"),
    wrong="""
queries.shape[-1] ** => (queries.shape[1] * queries.shape[-1]) **
    multi-query attention scaled by the width over all heads [wrong-scale]
keys[ => values[
    multi-query attention scored with the values [scores-from-values]
    ? Which line reads `keys`?
values[ => keys[
    multi-query attention whose weights are multiplied by the keys, not the values [projection-reused]
right(queries.mean(1, keepdim=True), keys, values).expand_as(queries)
    the mean of all query heads, asked once: the queries must stay apart [heads-averaged]
    ? How many patterns of weights should there be, one for all heads or one per head?
result[:, :1].expand_as(queries)
    one head's result for all: keys and values are shared, queries are not [heads-share-scores]
result.mean(1)
    the mean over the heads of the result [heads-averaged]
    ? Which axes should the result have?
.softmax => .masked_fill(torch.ones(queries.shape[2], keys.shape[1]).triu(1).bool(), -torch.inf).softmax
    multi-query attention under a causal mask; this task hides no token
    ? Which tokens may a token see here?
result.transpose(1, 2).flatten(2)
    multi-query attention, already merged to (batch, token, head * head_dim): right, but one step too far
weights @ values[:, None] => weights
    the weights, before they are multiplied by the values [weights-not-applied]
result.mean(1, keepdim=True).expand_as(queries)
    multi-query attention with the mean of all heads' weights in every head [heads-share-scores]
""",
)
