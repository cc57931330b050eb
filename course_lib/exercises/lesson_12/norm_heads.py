"""The norm of each head of the queries or keys."""

from course_lib.exercises.function_exercise import FunctionExercise


def norm_heads(x, num_heads):
    # (batch, token, head * head_dim), int -> (batch, head, token, head_dim)
    by_head = x.unflatten(2, (num_heads, -1)).transpose(1, 2)
    mean_square = by_head.square().mean(dim=-1, keepdim=True)  # (b, h, t, 1)
    return by_head / mean_square.sqrt()


EXERCISE = FunctionExercise(
    norm_heads,
    title="The norm of each head",
    difficulty=2,
    minutes=2,
    prompt=(
        "`x` holds the queries of all heads as the projection returns them, (batch, token, head * head_dim). Split them "
        "into heads, and divide the vector of each head and token by its root mean square, the square root of the mean "
        "of its squares. Return (batch, head, token, head_dim). The learned factors are left out here, and the small number "
        "that guards against vectors of zeros may be."
    ),
    hints=(
        "Split first, as in lesson 04: `unflatten(2, (num_heads, -1))`, then `transpose(1, 2)`.",
        "The mean runs over the last axis, which must stay for the division: `mean(dim=-1, keepdim=True)`.",
    ),
    inputs={"x": "batch token num_heads*head_dim"},
    calls=4,
    std=100.0,  # so that a small number under the root, as in published code, is right, too
    draw_edges=({"num_heads": 1},),
    axes="batch head token head_dim",
    gradients=("x",),
    wrong="""
(x / x.square().mean(dim=-1, keepdim=True).sqrt()).unflatten(2, (num_heads, -1)).transpose(1, 2)
    a norm over all heads together: a head that is larger than the others stays larger
    ? Over how many numbers does the mean run: over those of one head, or of all?
mean(dim=-1, keepdim=True) => mean(dim=2, keepdim=True)
    a norm over the tokens, so that later tokens change earlier ones [norm-wrong-axis]
    ? Which axis of (batch, head, token, head_dim) holds the numbers of one vector?
square().mean => square().sum
    vectors of length 1: divided by the root of the sum of squares, not of their mean
    ? How long is a vector of `head_dim` numbers, if the mean of their squares is 1?
mean_square.sqrt() => mean_square
    a division by the mean square; its root is missing
    ? What becomes of a vector that is twice as long?
.transpose(1, 2) => .reshape(len(x), num_heads, -1, x.shape[2] // num_heads)
    heads that are split by a reshape alone, which mixes the tokens [split-without-transpose]
    ? Which axis comes right after the batch when you split, and which one should?
""",
)
