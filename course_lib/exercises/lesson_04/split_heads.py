"""Cut the heads."""

from course_lib.exercises.function_exercise import FunctionExercise


def split_heads(x, num_heads):
    # (token, batch, num_heads * head_dim) -> (batch, head, token, head_dim)
    num_tokens, batch, width = x.shape
    # (t, b, h * d) -> (t, b, h, d)
    split = x.view(num_tokens, batch, num_heads, width // num_heads)
    return split.permute(1, 2, 0, 3)  # (t, b, h, d) -> (b, h, t, d)


EXERCISE = FunctionExercise(
    split_heads,
    title="Cut the heads",
    difficulty=2,
    minutes=5,
    prompt=(
        "One wide tensor in, a table of tokens for each head of each sample out. Mind the order of the axes: here "
        "the **tokens come first** and the batch second, (token, batch, num_heads * head_dim), as "
        "`nn.MultiheadAttention` has it unless it is told `batch_first=True`."
    ),
    hints=(
        "Two moves: first split the width, then bring the axes into the order that is wanted.",
        "`view` splits the last axis into (num_heads, head_dim) and leaves the other two: (token, batch, head, "
        "head_dim). Which axis must come first now, which second?",
        "`permute` takes all axes in their new order: `split.permute(1, 2, 0, 3)`. Two `transpose` do it as well.",
    ),
    inputs={"x": "token batch num_heads*head_dim"},
    calls=4,
    also=({"batch": 1}, {"head_dim": 1}, {"num_heads": 1}),
    least={"num_heads": 1},
    arguments={"x": "token batch width"},
    axes="batch head token head_dim",
    fixed="width",
    gradients=("x",),
    wrong="""
x.reshape(x.shape[1], num_heads, len(x), -1)
    a view straight to the shape: the heads hold whole tokens [split-without-transpose]
x.unflatten(2, (-1, num_heads)).permute(1, 3, 0, 2)
    the heads with every h-th element; a head's elements lie side by side
    ? In which order do heads and head_dim stand in the view: who is the outer one?
split.permute(1, 2, 0, 3) => split
    the split width without the new order: (token, batch, head, head_dim)
    ? Which axes must come to the front, so that each head of each sample is a table of tokens?
x.unflatten(2, (num_heads, -1)).transpose(1, 2)
    the heads as for (batch, token, width): the result is (token, head, batch, head_dim)
    ? Which axis of `x` is the batch here?
x.unflatten(2, (num_heads, -1)).transpose(0, 1)
    the batch in front, and heads and tokens not yet exchanged: (batch, token, head, head_dim)
    ? Two axes have to be moved. Which is still in its old place?
result.mT
    the heads with their last two axes exchanged: (batch, head, head_dim, token)
    ? Which axes did you exchange? The keys need this later, not now.
x.transpose(0, 1).reshape(x.shape[1], num_heads, len(x), -1)
    a reshape of (batch, token, width) straight to the shape: the heads hold whole tokens [split-without-transpose]
""",
)
