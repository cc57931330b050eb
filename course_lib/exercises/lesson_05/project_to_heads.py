"""Project, split, and bring the heads to the front."""

from course_lib.exercises.function_exercise import FunctionExercise


def project_to_heads(x, weight, num_heads):
    # (b, token, d_in), (d_out, d_in), int -> (b, head, token, head_dim)
    projected = x @ weight.T  # (batch, token, d_out)
    # (batch, token, head, head_dim)
    split = projected.view(*x.shape[:2], num_heads, -1)
    return split.transpose(1, 2)


EXERCISE = FunctionExercise(
    project_to_heads,
    title="Projection and split in one function",
    difficulty=2,
    minutes=4,
    prompt="Project `x` for all heads at once, split the width into heads, and bring the heads in front of the tokens.",
    hints=(
        "`nn.Linear` keeps its matrix as (width out, width in), so the product is `x @ weight.T`.",
        "`view(batch, num_tokens, num_heads, head_dim)`, then exchange the axes of tokens and heads.",
    ),
    inputs={"weight": "num_heads*head_dim d_in"},
    draw_edges=({"head_dim": 1},),
    least={"num_heads": 1},
    arguments={"x": "batch token d_in", "weight": "d_out d_in"},
    axes="batch head token head_dim",
    fixed="d_out",
    gradients=("x", "weight"),
    wrong="""
(x @ weight.T).view(len(x), num_heads, x.shape[1], -1)
    a view straight to the shape: the heads hold whole tokens [split-without-transpose]
1, => 2,
    the split width without the exchange: (batch, token, head, head_dim)
    ? Which two axes are still to be exchanged?
(x @ weight.T).unflatten(2, (-1, num_heads)).permute(0, 3, 1, 2)
    heads of every h-th element; a head's elements lie side by side
    ? In the view, does the axis of heads come before that of head_dim?
result.mT
    the heads with their last two axes exchanged: (batch, head, head_dim, token)
    ? The keys need this later, not now. Which two axes does `transpose(1, 2)` exchange?
x @ weight.T
    the projection, not yet split: (batch, token, d_out)
    ? Where does the axis of heads come from?
""",
)
