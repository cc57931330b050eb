"""Predict the strides."""

from course_lib.exercises.function_exercise import FunctionExercise


def strides_by_head(num_tokens, num_heads, head_dim):
    # three ints -> four ints: batch, head, token, head_dim
    width = num_heads * head_dim
    return (num_tokens * width, head_dim, width, 1)


EXERCISE = FunctionExercise(
    strides_by_head,
    title="Predict the strides",
    difficulty=3,
    minutes=5,
    prompt=(
        "Queries of one sample, (1, token, width), lie in memory row by row. What are the strides of "
        "`queries.view(1, num_tokens, num_heads, head_dim).transpose(1, 2)`? Count them, without making the "
        "tensor."
    ),
    hints=(
        "Begin with the strides of (batch, token, width): a step in the width is 1, a token is the width.",
        "The view splits the width: a head is head_dim numbers on. A token still is num_heads * head_dim on.",
        "`transpose(1, 2)` exchanges shapes and strides of axes 1 and 2 and nothing else.",
    ),
    calls=4,
    least={"num_tokens": 1, "num_heads": 1, "head_dim": 1},
    most={"num_tokens": 100_000},
    wrong="""
(num_tokens * num_heads * head_dim, num_heads * head_dim, head_dim, 1)
    the strides before the transpose: (batch, token, head, head_dim)
    ? What does `transpose(1, 2)` do to the strides?
torch.empty(1, num_heads, num_tokens, head_dim, device="meta").stride()
    the strides of a fresh tensor of that shape, as if the elements had moved
    ? Does `transpose` move a single element?
(num_tokens * num_heads * head_dim, head_dim, 1, num_heads * head_dim)
    the strides with the last two axes exchanged
    ? Which two axes does `transpose(1, 2)` exchange?
(1, num_heads, num_tokens, head_dim)
    the shape; the strides say how many slots a step skips
(8 * num_tokens * num_heads * head_dim, 8 * head_dim, 8 * num_heads * head_dim, 8)
    the strides in bytes; PyTorch counts them in elements
(4 * num_tokens * num_heads * head_dim, 4 * head_dim, 4 * num_heads * head_dim, 4)
    the strides in bytes of float32 elements
head_dim, => width,
    strides whose head skips a whole token: a token's heads lie side by side
    ? How far is head 1 of a token from head 0 of the same token?
, width => , head_dim
    strides whose token skips one head only
    ? How far is head 0 of the next token?
(head_dim, num_heads * head_dim, 1)
    the strides without the batch
head_dim, => num_heads,
    strides whose head skips num_heads slots; a head is head_dim wide
    ? How far is head 1 of a token from head 0 of the same token?
""",
)
