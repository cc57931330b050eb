"""Put the heads back."""

from course_lib.exercises.function_exercise import FunctionExercise


def merge_heads(x):
    # (head, batch, token, head_dim) -> (batch, token, num_heads * head_dim)
    num_heads, batch, num_tokens, head_dim = x.shape
    by_token = x.permute(1, 2, 0, 3)  # (h, b, t, d) -> (b, t, h, d)
    # (b, t, h, d) -> (b, t, h * d)
    return by_token.reshape(batch, num_tokens, num_heads * head_dim)


EXERCISE = FunctionExercise(
    merge_heads,
    title="Put the heads back",
    difficulty=2,
    minutes=4,
    prompt=(
        "And back: each token's row holds the elements of head 0, then those of head 1, and so on. Mind the order of "
        "the axes: here the **heads come first**, (head, batch, token, head_dim), as after a `torch.stack` of what "
        "each head gave."
    ),
    hints=(
        "First bring the axes into an order in which the two that are to be joined are neighbours. Then join.",
        "`permute` takes all axes in their new order. Which order of the four makes (batch, token, head, head_dim)?",
        "After `x.permute(1, 2, 0, 3)` comes `reshape`, which copies: `view` refuses, because the elements don't lie "
        "in the order of the axes.",
    ),
    also=({"head": 1}, {"batch": 1}, {"head_dim": 1}, {"token": 1}),
    draw_edges=({"head": 1, "head_dim": 1},),
    arguments={"x": "head batch token head_dim"},
    axes="batch token width",
    gradients=("x",),
    wrong="""
by_token. => x.
    a reshape of the heads as they are: a row holds several tokens of one head [merge-without-transpose]
x.permute(1, 2, 3, 0).flatten(2)
    the elements of the heads in turn; those of one head should stay together
    ? In which order stand head and head_dim before you join them?
x.mean(0)
    the mean of the heads [heads-averaged]
    ? How many numbers does a token have in all heads together, and how many has a row of your result?
x.sum(0)
    the sum of the heads [heads-averaged]
    ? How many numbers does a token have in all heads together, and how many has a row of your result?
x.permute(1, 2, 0, 3)
    the new order without the join: (batch, token, head, head_dim)
    ? The axes are in the right order. Which two are neighbours now, to become one?
x[0]
    the first head alone
torch.cat(x.unbind(0), 1)
    the heads one below the other
    ? How many rows should a sample have?
x.transpose(1, 2).flatten(2)
    the merge of (batch, head, token, head_dim): heads and batch are exchanged
    ? Which axis of `x` are the heads here?
x.transpose(0, 1).reshape(x.shape[1], x.shape[2], -1)
    a reshape after heads and batch were exchanged: a row holds several tokens of one head [merge-without-transpose]
""",
)
