"""Split the width into heads."""

from course_lib.exercises.function_exercise import FunctionExercise


def to_heads(x, num_heads):
    # (batch, token, num_heads * head_dim) -> (batch, head, token, head_dim)
    batch, num_tokens, width = x.shape
    split = x.view(batch, num_tokens, num_heads, width // num_heads)
    return split.transpose(1, 2)


EXERCISE = FunctionExercise(
    to_heads,
    title="Split the width into heads",
    difficulty=2,
    minutes=4,
    prompt="Split the last axis into heads and bring the heads in front of the tokens.",
    hints=(
        "Two moves: a `view` to (batch, token, head, head_dim), then a `transpose`.",
        "`transpose(1, 2)` exchanges the axes of tokens and heads.",
    ),
    inputs={"x": "batch token num_heads*head_dim"},
    draw_edges=({"head_dim": 1},),
    least={"num_heads": 1},
    arguments={"x": "batch token width"},
    axes="batch head token head_dim",
    fixed="width",
    gradients=("x",),
    wrong="""
x.reshape(len(x), num_heads, x.shape[1], -1)
    a view straight to the shape: the heads hold whole tokens [split-without-transpose]
1 => 2
    the split width without the exchange: (batch, token, head, head_dim)
    ? Which two axes are still to be exchanged?
x.unflatten(2, (-1, num_heads)).permute(0, 3, 1, 2)
    heads of every h-th element; a head's elements lie side by side
    ? In the view, does the axis of heads come before that of head_dim?
result.mT
    the heads with their last two axes exchanged: (batch, head, head_dim, token)
    ? Which two axes does `transpose(1, 2)` exchange?
""",
)
