"""Rotate queries and keys."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def rotate(x, cos, sin):
    # (b, h, token, head_dim), 2 x (token, pair) -> (b, h, token, head_dim)
    first, second = x.chunk(2, dim=-1)  # the halves, each (b, h, t, pair)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


EXERCISE = FunctionExercise(
    rotate,
    title="Rotate queries and keys",
    difficulty=2,
    minutes=3,
    prompt=(
        "`cos` and `sin` hold one angle per token and pair, (token, pair), for all samples and heads. Rotate "
        "each pair (a, b) of `x` to (a cos - b sin, b cos + a sin). The pairs are the halves of a head, as in the "
        "course and in the Llama of `transformers`: with 3 pairs, a is element 0, 1 or 2 and b is element 3, 4 or 5. "
        "The rotated elements take the places of a and b."
    ),
    hints=(
        "Cut the last axis into its two halves: all a and all b, each (batch, head, token, pair).",
        "`cos` is (token, pair), the last two axes of each half, so that a product broadcasts over samples and heads.",
        "`a, b = x.chunk(2, dim=-1)`, then `torch.cat` of `a * cos - b * sin` and `b * cos + a * sin`, along the last "
        "axis.",
    ),
    inputs={
        "x": "batch head token 2*pair",
        "angle": "token pair",
        "cos": lambda angle: (2 * angle).cos(),
        "sin": lambda angle: (2 * angle).sin(),
    },
    calls=2,
    also=({"batch": 1, "token": 1}, {"head": 1, "pair": 1}),
    arguments={"x": "batch head token head_dim", "cos": "token pair", "sin": "token pair"},
    axes="batch head token head_dim",
    fixed="head_dim pair",
    gradients=("x",),
    wrong="""
x.chunk(2, dim=-1) => (x[..., ::2], x[..., 1::2]) && torch.cat => torch.stack && ], dim=-1) => ], dim=-1).flatten(-2)
    pairs of neighbours, as in Meta's own files: elements 0 and 1, 2 and 3
    ? With 3 pairs, which element is paired with element 0?
x.chunk(2, dim=-1) => (x[..., ::2], x[..., 1::2])
    pairs of neighbours that are put back as halves
    ? With 3 pairs, which element is paired with element 0?
torch.cat => torch.stack && ], dim=-1) => ], dim=-1).flatten(-2)
    pairs of halves that are put back as neighbours
    ? Where did the second element of pair 0 come from, and where does it stand now?
right(x, cos, -sin)
    a rotation in the other direction, by the negative angles
    ? Which of the two has the minus sign?
- second => + second
    no rotation: with plus in both, lengths change
    ? Is each pair as long after it as before?
- second => - first && + first => + second
    elements that are multiplied by sines and cosines of their own pair, but never meet their partner
    ? Which element does a meet when it is multiplied by the sine?
[first * cos - second * sin, => [first, && return => first = first * cos - second * sin; return
    a rotation whose second half was computed with the first half's new elements
    ? When you compute the second half, what does the name of the first half hold?
torch.cat(result.chunk(2, -1)[::-1], -1)
    the two halves exchanged
    ? In which order are the halves joined?
x * torch.cat([cos, cos], -1)
    the cosine's part only
    ? Where does the sine enter?
right(x, sin, cos)
    a rotation with cosines and sines exchanged
    ? What should come out for angle 0, where cos is 1 and sin is 0?
result.chunk(2, -1)[0]
    the rotated first half only
    ? How wide is x, and how wide is your result?
second * cos + first * sin => first * cos + second * sin
    a second half in which a and b stand as in the first, with a plus in between
    ? In the second half, which of a and b is multiplied by the cosine?
right(x, cos[:1], sin[:1])
    every token rotated by the angles of token 0
    ? Which axis of `cos` are the tokens?
""",
)
