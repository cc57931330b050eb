"""Merge the heads."""

from course_lib.exercises.function_exercise import FunctionExercise


def from_heads(x):
    # (batch, head, token, head_dim) -> (batch, token, num_heads * head_dim)
    batch, num_heads, num_tokens, head_dim = x.shape
    by_token = x.transpose(1, 2)
    return by_token.reshape(batch, num_tokens, num_heads * head_dim)


EXERCISE = FunctionExercise(
    from_heads,
    title="Merge the heads",
    difficulty=2,
    minutes=3,
    prompt="Bring the tokens back in front of the heads, and make one axis of the last two.",
    hints=(
        "First `transpose(1, 2)`, then join.",
        "Join with `reshape`; after the transpose, `view` refuses.",
    ),
    draw_edges=({"head": 1, "head_dim": 1}, {"head": "batch", "token": "batch*head_dim"}),
    arguments={"x": "batch head token head_dim"},
    axes="batch token width",
    gradients=("x",),
    wrong="""
1 => 2
    a reshape of the heads as they are: a row holds several tokens of one head [merge-without-transpose]
x.transpose(1, 2)
    the exchange without the join: (batch, token, head, head_dim)
    ? Which two axes should become one?
x.permute(0, 2, 3, 1).flatten(2)
    the elements of the heads in turn; those of one head should stay together
    ? In which order are head and head_dim before you join them?
x.sum(1)
    the sum of the heads [heads-averaged]
x.mean(1)
    the mean of the heads [heads-averaged]
1 => -1
    a join after tokens and head_dim were exchanged; heads and tokens should be
    ? Which two axes does your transpose exchange? All four are counted from 0.
""",
)
