"""Two heads by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.exercises.function_exercise import FunctionExercise


def two_heads(x, q_proj, k_proj, v_proj):
    # (token, d_in), three pairs of (d_in, head_dim) -> (token, 2 * head_dim)
    contexts = []
    for head in (0, 1):
        # (t, m) @ (m, d) -> (t, d)
        queries, keys, values = x @ q_proj[head], x @ k_proj[head], x @ v_proj[head]
        weights = ((queries * queries.shape[-1] ** -0.5) @ keys.T).softmax(dim=-1)
        contexts.append(weights @ values)
    return torch.cat(contexts, dim=-1)  # 2 x (t, d) -> (t, 2 * d)


def _pair(std: float) -> Callable[..., tuple[Tensor, ...]]:
    return lambda rng, d_in, head_dim: tuple(rng.normal(d_in, head_dim, std=std * d_in**-0.5) for _ in range(2))


EXERCISE = FunctionExercise(
    two_heads,
    title="Two heads by hand",
    difficulty=2,
    minutes=7,
    prompt=(
        "One sentence, two heads, scaled scores, no mask. Each role comes as a pair of matrices, one per head, used as "
        "`x @ q_proj[0]`. Head 0's numbers come first in every row."
    ),
    hints=(
        "Write one head first, with `q_proj[0]`, `k_proj[0]`, `v_proj[0]`, and then the same with 1.",
        "A loop over 0 and 1 can't forget to change an index. Scale by the width of one head.",
        "`torch.cat([context_0, context_1], dim=-1)` puts them side by side.",
    ),
    inputs={"q_proj": _pair(2.0), "k_proj": _pair(2.0), "v_proj": _pair(3.0)},
    also=({"token": 1}, {"head_dim": 1}),
    draw_edges=({"token": "2*head_dim"},),
    arguments={
        "x": "token d_in",
        "q_proj": "d_in head_dim",
        "k_proj": "d_in head_dim",
        "v_proj": "d_in head_dim",
    },
    axes="token width",
    gradients=("x", "q_proj", "k_proj", "v_proj"),
    wrong="""
1): => 0):
    head 0 twice [heads-share-weights]
    ? Where does your code use `q_proj[1]`, `k_proj[1]` and `v_proj[1]`?
q_proj[head], x @ k_proj[head] => q_proj[0], x @ k_proj[0]
    two heads that both use the weights of head 0 [heads-share-scores]
q_proj[head] => q_proj[0]
    two heads that share the queries of head 0 [projection-reused]
k_proj[head] => k_proj[0]
    two heads that share the keys of head 0 [projection-reused]
v_proj[head] => v_proj[0]
    two heads that share the values of head 0 [projection-reused]
torch.cat(contexts, dim=-1) => sum(contexts)
    the sum of the heads [heads-averaged]
    ? How many numbers should each row of the result have?
torch.cat(contexts, dim=-1) => sum(contexts) / 2
    the mean of the heads [heads-averaged]
    ? How many numbers should each row of the result have?
1)  # => 0)  #
    the heads one below the other; they should be side by side
    ? Along which axis do you join? What is a row?
torch.cat(contexts, dim=-1) => torch.stack(contexts)
    the heads on an axis of their own; they should be side by side
    ? What is the difference between `stack` and `cat`?
torch.cat(contexts, dim=-1) => torch.stack(contexts).reshape(len(x), -1)
    the heads one below the other, cut into rows anew: a row holds two tokens of one head [merge-without-transpose]
.softmax => .masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -torch.inf).softmax
    heads under a causal mask; this task hides no token
    ? Which tokens may a token see here?
queries.shape[-1] => (2 * queries.shape[-1])
    heads scaled by the width of both together [wrong-scale]
keys. => values.
    heads scored with the values [scores-from-values]
(dim=-1 => (dim=0
    heads with softmax over the queries [softmax-wrong-axis]
.softmax => .masked_fill(torch.ones(len(x), len(x)).tril(-1).bool(), -torch.inf).softmax
    heads that see themselves and later tokens only; this task hides no token
    ? Which tokens may a token see here?
.softmax => .masked_fill(torch.ones(len(x), len(x)).tril().bool(), -torch.inf).softmax
    heads that see later tokens only, so that the last one sees nothing; this task hides no token
    ? Which tokens may a token see here?
right(x, k_proj, q_proj, v_proj)
    heads in which queries and keys changed places: each token is asked where it should ask
    ? Which of the two stands on the left of the product?
values) => keys)
    heads whose weights are multiplied by the keys, not the values [projection-reused]
torch.cat(contexts, dim=-1) => torch.stack(contexts, -1).flatten(-2)
    elements of the two heads in turn; a head's elements should stay together
    ? Where should element 1 of head 0 stand in a row?
weights @ values => weights
    the heads' weights side by side, before they meet the values [weights-not-applied]
right(x, q_proj, k_proj[::-1], v_proj)
    heads whose queries meet the keys of the other head
    ? Which keys do the queries of head 0 meet?
right(x, q_proj, k_proj, v_proj[::-1])
    heads whose weights multiply the values of the other head
    ? Which values do the weights of head 0 multiply?
""",
)
