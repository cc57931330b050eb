"""What W^O does."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def mix_heads(contexts, w_o):
    # list of (b, token, head_dim), (d_out, num_heads * head_dim) -> (b, token, d_out)
    joined = torch.cat(contexts, dim=-1)  # num_heads x (b, t, d) -> (b, t, h * d)
    return joined @ w_o.T


EXERCISE = FunctionExercise(
    mix_heads,
    title="What W^O does",
    difficulty=2,
    minutes=5,
    prompt=(
        "You get the contexts of the heads as a list, and W^O as `nn.Linear` keeps it: (width out, width in). Put the "
        "heads side by side, the first one first, and apply the output projection to each token's row, as `nn.Linear` "
        "without bias would."
    ),
    hints=(
        "There are two ways to write it: join first, or project each head and add.",
        "`nn.Linear` keeps its matrix as (out, in) and computes `x @ weight.T`.",
        "Joined: `torch.cat(contexts, dim=-1) @ w_o.T`. Added: the first head_dim columns of `w_o` are head 0's.",
    ),
    inputs={
        "contexts": lambda rng, batch, token, head_dim, num_heads: [
            rng.normal(batch, token, head_dim) for _ in range(num_heads)
        ]
    },
    first={"d_out": "num_heads*head_dim"},
    also=({"num_heads": 1}, {"batch": 1, "token": 1, "head_dim": 1}),
    arguments={"contexts": "batch token head_dim", "w_o": "d_out num_heads*head_dim"},
    axes="batch token d_out",
    gradients=("contexts", "w_o"),
    wrong="""
joined @ w_o.T => joined
    the heads side by side, without W^O [output-projection-missing]
w_o.T => w_o
    the heads side by side, multiplied by `w_o` as it stands
    ? `w_o` is (width out, width in). Which of the two should meet the width of the heads?
right(contexts[::-1], w_o)
    the heads in reverse order, mixed
    ? Whose are the first columns?
contexts[0] @ w_o[:, :contexts[0].shape[-1]].T
    the first head alone, mixed
    ? How many heads reach the output?
contexts[-1] @ w_o[:, -contexts[0].shape[-1]:].T
    the last head alone, mixed: each turn of the loop replaces what was there
    ? In the loop, is the next head added or put in place of the others?
result / len(contexts)
    the mean of what the heads give; it should be their sum [heads-averaged]
    ? By what is a sum divided to become a mean, and does the task ask for one?
sum((context @ w_o[:, :context.shape[-1]].T for context in contexts))
    every head mixed by the columns of head 0 [heads-share-weights]
    ? Which columns of `w_o` belong to head 1?
torch.stack(contexts, -1).flatten(-2) @ w_o.T
    elements of the heads taken in turn; a head's elements should stay together
    ? Where should element 1 of head 0 stand in a row?
torch.stack(contexts).reshape(*contexts[0].shape[:2], -1) @ w_o.T
    the heads one below the other, cut into rows anew and mixed: a row holds several tokens of one head
        [merge-without-transpose]
torch.stack(contexts, 1).reshape(*contexts[0].shape[:2], -1) @ w_o.T
    the heads beside the batch, cut into rows anew and mixed: a row holds several tokens of one head
        [merge-without-transpose]
torch.cat(contexts)
    the heads one below the other in the batch
""",
)
