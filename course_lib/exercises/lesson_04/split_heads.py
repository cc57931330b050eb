"""Cut the heads."""

from __future__ import annotations

from course_lib.exercises.exercise import Case, Wrong
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


def split_heads(x, num_heads):
    # (token, batch, num_heads * head_dim) -> (batch, head, token, head_dim)
    num_tokens, batch, width = x.shape
    # (t, b, h * d) -> (t, b, h, d)
    split = x.view(num_tokens, batch, num_heads, width // num_heads)
    return split.permute(1, 2, 0, 3)  # (t, b, h, d) -> (b, h, t, d)


def _draw(rng: InputGenerator) -> list[Case]:
    rows = [*rng.size_rows(3, 4, 2, 7), (1, 5, 3, 4), (4, 2, 9, 3), (2, 4, 3, 1), (2, 3, 1, 5)]
    return [Case((rng.normal(tokens, batch, heads * width), heads)) for batch, tokens, heads, width in rows]


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
    draw=_draw,
    least={"num_heads": 1},
    arguments={"x": "token batch width"},
    axes="batch head token head_dim",
    fixed="width",
    gradients=("x",),
    wrong=(
        Wrong(
            "a view straight to the shape: the heads hold whole tokens",
            lambda x, h: x.reshape(x.shape[1], h, len(x), -1),
            "split-without-transpose",
        ),
        Wrong(
            "the heads with every h-th element; a head's elements lie side by side",
            lambda x, h: x.unflatten(2, (-1, h)).permute(1, 3, 0, 2),
            hint="In which order do heads and head_dim stand in the view: who is the outer one?",
        ),
        Wrong(
            "the split width without the new order: (token, batch, head, head_dim)",
            lambda x, h: x.unflatten(2, (h, -1)),
            hint="Which axes must come to the front, so that each head of each sample is a table of tokens?",
        ),
        Wrong(
            "the heads as for (batch, token, width): the result is (token, head, batch, head_dim)",
            lambda x, h: x.unflatten(2, (h, -1)).transpose(1, 2),
            hint="Which axis of `x` is the batch here?",
        ),
        Wrong(
            "the batch in front, and heads and tokens not yet exchanged: (batch, token, head, head_dim)",
            lambda x, h: x.unflatten(2, (h, -1)).transpose(0, 1),
            hint="Two axes have to be moved. Which is still in its old place?",
        ),
        Wrong(
            "the heads with their last two axes exchanged: (batch, head, head_dim, token)",
            lambda x, h: split_heads(x, h).transpose(2, 3),
            hint="Which axes did you exchange? The keys need this later, not now.",
        ),
        Wrong("the heads in reverse order", lambda x, h: split_heads(x, h).flip(1)),
        Wrong(
            "a list of heads as a tensor: (head, batch, token, head_dim)",
            lambda x, h: split_heads(x, h).transpose(0, 1),
        ),
        Wrong(
            "a reshape of (batch, token, width) straight to the shape: the heads hold whole tokens",
            lambda x, h: x.transpose(0, 1).reshape(x.shape[1], h, len(x), -1),
            "split-without-transpose",
        ),
    ),
)
