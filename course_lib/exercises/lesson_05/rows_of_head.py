"""The rows of one head."""

from course_lib.exercises.function_exercise import FunctionExercise


def rows_of_head(weight, head, num_heads):
    # (d_out, d_in), int, int -> (head_dim, d_in)
    head_dim = weight.shape[0] // num_heads
    return weight[head * head_dim : (head + 1) * head_dim]


EXERCISE = FunctionExercise(
    rows_of_head,
    title="The rows of one head",
    difficulty=1,
    minutes=3,
    prompt=(
        "`weight` is the weight matrix of one wide projection, (width out, width in), as `nn.Linear` keeps it. Cut out "
        "the rows that make the numbers of one head. Heads are counted from 0, and each has as many rows as the others."
    ),
    hints=(
        "How many rows does a head have? `weight.shape[0] // num_heads`.",
        "Head 1 begins where head 0 ends: at row `head_dim`.",
    ),
    inputs={"weight": "num_heads*head_dim d_in", "head": lambda rng, num_heads: rng.integer(num_heads - 1)},
    calls=4,
    first={"head": lambda num_heads: num_heads - 1},
    draw_edges=({"head": 2, "head_dim": 1}, {"head": 0, "num_heads": 1}),
    least={"head": 0},
    arguments={"weight": "d_out d_in"},
    axes="head_dim d_in",
    fixed="d_out",
    wrong="""
weight[head::num_heads]
    every h-th row; a head's rows lie one below the other
    ? Where does head 1 begin?
right(weight, 0, num_heads)
    the rows of head 0, whichever head it is
    ? Where does `head` come into your slice?
weight[head:head + len(weight) // num_heads]
    a block that begins at row `head`; the heads before it own `head_dim` rows each
    ? Where does head 1 begin?
weight.shape[0] // num_heads => num_heads
    as many rows as there are heads; a head has `head_dim` rows
    ? How many rows does a head have?
head + => num_heads +
    the rows of all heads from this one on
weight[head]
    one row, not a block of rows
right(weight, num_heads - 1 - head, num_heads)
    the rows of another head: the heads are counted from the end
    ? Where does head 0 begin?
weight[(head - 1) * (len(weight) // num_heads):head * (len(weight) // num_heads)]
    the rows of the head before it; heads are counted from 0
    ? Where does head 0 begin?
0 => 1
    a block as wide as d_in // num_heads; it is the width out that the heads share
    ? Which axis of the matrix counts its rows?
""",
)
