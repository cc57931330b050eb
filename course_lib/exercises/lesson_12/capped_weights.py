"""Attention weights with a soft cap."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def capped_weights(queries, keys, keep, cap):
    # (query, head_dim), (key, head_dim), (query, key) bool, a number -> (query, key)
    scores = (queries * queries.shape[-1] ** -0.5) @ keys.T
    capped = cap * torch.tanh(scores / cap)
    return capped.masked_fill(~keep, -torch.inf).softmax(dim=-1)


def _visible(keep):
    keep = keep > 0
    keep[:, 0], keep[0, 1] = True, False
    return keep


EXERCISE = FunctionExercise(
    capped_weights,
    title="Attention weights with a soft cap",
    difficulty=2,
    minutes=2,
    prompt=(
        "The attention weights of one head, as in Gemma 2. The scores are scaled by the root of head_dim, as always; "
        "then each is bent to `cap * tanh(score / cap)`, and after that come the mask, in which True = may attend, and "
        "softmax."
    ),
    hints=(
        "Three lines, in the order of the text: scores, capped scores, and softmax under the mask.",
        "`torch.tanh(scores / cap) * cap` bends the scores. Hidden scores become `-torch.inf` only after that.",
    ),
    inputs={"keep": _visible, "cap": [2.0, 0.5, 5.0, 1.0]},
    calls=4,
    std=1.5,
    special={"the cap is a million": {"cap": 1e6}},
    arguments={"queries": "query head_dim", "keys": "key head_dim", "keep": "query key"},
    axes="query key",
    gradients=("queries", "keys"),
    wrong="""
right(queries, keys, keep, 1e9)
    softmax without the cap [softcap-missing]
    ? Where do you use `cap`?
((cap * torch.tanh((queries @ keys.T) / cap)) * queries.shape[-1] ** -0.5).masked_fill(~keep, -torch.inf).softmax(dim=-1)
    a cap before the scale: after it, the cap itself is divided by the root of head_dim
    ? Which is the largest score that your softmax can get, and which should it be?
(cap * torch.tanh(scores.masked_fill(~keep, -torch.inf) / cap)).softmax(dim=-1)
    a cap after the mask: it bends minus infinity to -cap, which is no longer hidden [softcap-missing]
    ? What is `cap * tanh(-inf / cap)`?
* queries.shape[-1] ** -0.5 => * 1.0
    scores that aren't divided by the square root of head_dim [missing-scale]
    ? By what are the scores divided, before the cap?
.masked_fill(~keep, -torch.inf).softmax(dim=-1) => .softmax(dim=-1)
    softmax without the mask [mask-discarded]
    ? Where does your code use `keep`? `masked_fill` returns a new tensor: what becomes of it?
""",
)
