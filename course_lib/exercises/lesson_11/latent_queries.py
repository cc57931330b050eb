"""The queries of the absorbed form of latent attention."""

from course_lib.exercises.function_exercise import FunctionExercise


def latent_queries(queries, key_up):
    # (head, query, head_dim), (head * head_dim, latent) -> (head, query, latent)
    num_heads, _, head_dim = queries.shape
    key_up_by_head = key_up.view(num_heads, head_dim, -1)  # (h * d, l) -> (h, d, l)
    return queries @ key_up_by_head  # (h, q, d) @ (h, d, l) -> (h, q, l)


EXERCISE = FunctionExercise(
    latent_queries,
    title="Absorb the key projection",
    difficulty=3,
    minutes=3,
    prompt=(
        "The keys of all heads are made from latents, (key, latent), by the weight matrix `key_up`, "
        "(head * head_dim, latent): `keys = latents @ key_up.T`, which is then split into heads. Project the queries "
        "instead: give back vectors, (head, query, latent), whose dot products with the latents themselves are the "
        "dot products of `queries` with the keys."
    ),
    hints=(
        "The rows of `key_up` belong to head 0, head 0, ..., head 1, ...: `view(num_heads, head_dim, -1)`.",
        "For one head: queries (latents W^T)^T = queries W latents^T. What stands in front of latents^T?",
    ),
    calls=4,
    draw_edges=({"head": 1},),
    arguments={"queries": "head query head_dim", "key_up": "head*head_dim latent"},
    axes="head query latent",
    wrong="""
queries @ key_up.view(queries.shape[2], queries.shape[0], -1).transpose(0, 1)
    the rows of key_up dealt out to the heads in turn
    ? Rows 0 to head_dim - 1 of `key_up` all belong to head 0. Which of the two is the outer axis?
queries @ key_up[:queries.shape[2]]
    every head projected with the matrix of head 0
    ? Which rows of `key_up` make the keys of head 1?
queries @ key_up.view(*queries.shape[::2], -1) * queries.shape[2] ** (-0.5)
    queries that were scaled: the product takes them as they are
    ? Does the prompt ask for scaled dot products?
queries @ key_up.view(*queries.shape[::2], -1).flip(0)
    every head projected with the matrix of another: the heads are counted from the end
    ? Which rows of `key_up` make the keys of head 0?
(queries @ key_up.view(*queries.shape[::2], -1)).sum(0)
    the sum over the heads
    ? Do all heads have the same scores?
(queries @ key_up.view(*queries.shape[::2], -1)).transpose(0, 1)
    the result with the queries as the first axis
    ? In which order does the first line give the axes?
queries @ key_up.reshape(queries.shape[0], -1, queries.shape[2]).mT
    a matrix that was reshaped where it should be transposed
    ? Does row 0 of head 0 still hold row 0 of `key_up`?
""",
)
