"""From neighbours to halves."""

from course_lib.exercises.function_exercise import FunctionExercise


def permute_meta_weights(weight, num_heads):
    # (head * head_dim, d_in), int -> (head * head_dim, d_in)
    pairs = weight.view(num_heads, -1, 2, weight.shape[1])  # (head, pair, 2, d_in)
    # (head, 2, pair, d_in) -> (head * head_dim, d_in)
    return pairs.transpose(1, 2).reshape(weight.shape)


EXERCISE = FunctionExercise(
    permute_meta_weights,
    title="From neighbours to halves",
    difficulty=4,
    minutes=8,
    prompt=(
        "Meta's files pair neighbours: in each head, rows 0 and 1 of `q_proj` and `k_proj` make pair 0, rows 2 and 3 "
        "pair 1, and so on. The course and `transformers` pair halves: with 3 pairs, rows 0 and 3 make pair 0, rows 1 "
        "and 4 pair 1. `weight` is a `q_proj.weight` or `k_proj.weight` of Meta's, with `num_heads` heads one below "
        "the other. Give it back with its rows in the order that halves need, so that all scores of rotated queries "
        "and keys stay as they are."
    ),
    hints=(
        "Nothing is computed: rows change places, within each head and in the same way in each.",
        "With 3 pairs, the new rows of a head are its old rows 0, 2, 4, 1, 3, 5: first the first rows of all pairs, "
        "then the second ones.",
        "View the rows as (num_heads, pair, 2, d_in), exchange the axes of the pairs and of the two, and `reshape` to "
        "the old shape.",
    ),
    inputs={"weight": "num_heads*pair*2 d_in"},
    also=({"num_heads": 1},),
    draw_edges=({"d_in": "num_heads*pair*2"}, {"pair": 1}),
    least={"num_heads": 1},
    arguments={"weight": "row d_in"},
    axes="row d_in",
    fixed="row",
    wrong="""
(1 => (2
    the weight as it was
    ? With 3 pairs, which old row belongs in row 1?
-1, 2, => 2, -1,
    the way back, from halves to neighbours
    ? Which layout does the file have, and which one do you need?
right(weight, 1)
    halves of the whole matrix: each head has halves of its own
    ? Which rows of your result belong to head 0? Did they before?
pairs. => pairs.flip(2).
    the second elements of the pairs before the first ones
    ? Which old row belongs in row 0 of a head?
weight.view(-1, 2, num_heads, weight.shape[1]).permute(2, 1, 0, 3).reshape(weight.shape)
    a weight cut as if the heads lay side by side within each pair
    ? In which order do heads, pairs and the two rows of a pair lie in the file?
torch.cat([weight[:, ::2], weight[:, 1::2]], 1)
    columns that changed places instead of rows
    ? Which axis of the weight are the elements of a query?
result.view(num_heads, -1, weight.shape[1])
    the rows of the heads on an axis of their own; join them to (head * head_dim, d_in)
    ? Which shape did the weight have?
weight.view(num_heads, -1, weight.shape[1]).flip(1).reshape(weight.shape)
    each head with its rows in reverse order
    ? With 3 pairs, which old rows belong in rows 0, 1 and 2?
""",
)
