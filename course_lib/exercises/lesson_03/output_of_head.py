"""One head's part of the output."""

from course_lib.exercises.function_exercise import FunctionExercise


def output_of_head(context, w_o, head):
    # (b, token, head_dim), (d_out, d_out), int -> (b, token, d_out)
    head_dim = context.shape[-1]
    w_o_of_head = w_o[:, head * head_dim : (head + 1) * head_dim]  # (d_out, head_dim)
    return context @ w_o_of_head.T


EXERCISE = FunctionExercise(
    output_of_head,
    title="One head's part of the output",
    difficulty=2,
    minutes=4,
    prompt=(
        "`w_o` is the weight of the output projection, (width out, width in), as `nn.Linear` keeps it. Its columns "
        "belong to the heads, a block of `head_dim` columns per head. Project the context of one head by its own block."
    ),
    hints=(
        "Head 1 owns the columns from `head_dim` to `2 * head_dim`.",
        "`nn.Linear` computes `x @ weight.T`, with a block of columns as with the whole matrix.",
    ),
    inputs={
        "w_o": "num_heads*head_dim num_heads*head_dim",
        "head": lambda rng, num_heads: rng.integer(num_heads),
    },
    first={"head": lambda num_heads: num_heads - 1},
    least={"head": 0},
    arguments={"context": "batch token head_dim", "w_o": "d_out d_out"},
    axes="batch token d_out",
    fixed="d_out head_dim",
    gradients=("context", "w_o"),
    wrong="""
right(context, w_o, 0)
    the context projected by the block of head 0, whichever head it is
    ? Where does the block of head 1 begin?
w_o[:, => w_o.T[:,
    the context projected by rows of `w_o`
    ? `w_o` is (width out, width in). Which of the two does a head's width meet?
head * head_dim : (head + 1) * head_dim => head : head + head_dim
    the context projected by the columns from `head` on; each head before it owns `head_dim` columns
    ? Where does the block of head 1 begin?
head * head_dim : (head + 1) * head_dim => head :: w_o.shape[1] // head_dim
    the context projected by every h-th column; a head's columns lie side by side
    ? Which columns of the joined heads came from this head?
right(context, w_o, w_o.shape[1] // context.shape[-1] - 1 - head)
    the context projected by the block of another head: the heads are counted from the end
    ? Which columns of the joined heads came from head 0?
context
    the context alone, without W^O [output-projection-missing]
torch.nn.functional.pad(context, (head * context.shape[-1], w_o.shape[1] - (head + 1) * context.shape[-1]))
    the context with the other heads' columns set to 0, without W^O [output-projection-missing]
""",
)
