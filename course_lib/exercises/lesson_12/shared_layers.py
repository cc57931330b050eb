"""Layers that share one set of keys and values."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def shared_layers(x, q_weights, k_weight, v_weight, past_keys, past_values):
    # x (new, m); (layer, m, d), (m, d), (m, m); (past, d), (past, m)
    # -> x (new, m), and all keys and values, (past + new, d) and (past + new, m)
    keys = torch.cat([past_keys, x @ k_weight])
    values = torch.cat([past_values, x @ v_weight])
    seen = torch.ones(len(x), len(keys), dtype=torch.bool, device=x.device)
    seen = seen.tril(len(keys) - len(x))  # the last new token sees all keys
    for q_weight in q_weights:
        scores = (x @ q_weight * keys.shape[1] ** -0.5) @ keys.T  # (new, past + new)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(dim=-1)
        x = x + weights @ values
    return x, keys, values


EXERCISE = FunctionExercise(
    shared_layers,
    title="Layers that share keys and values",
    difficulty=3,
    minutes=6,
    prompt=(
        "Some layers with one head each, for one text. Each layer has query weights of its own, `q_weights`, "
        "(layer, m, d), but there is only one `k_weight`, (m, d), and one `v_weight`, (m, m): the keys and values are "
        "computed from the `x` that comes into the first layer, and all layers read them. Each layer is causal, scales "
        "its scores, and adds its context to `x`. The keys and values of earlier tokens come as `past_keys` and "
        "`past_values`, which may hold no token at all. Return `x` after the last layer, and the keys and values of "
        "all tokens, old and new."
    ),
    hints=(
        "What stands before the loop over the layers, and what inside? Keys and values don't change from layer to "
        "layer; queries do.",
        "`torch.cat([past_keys, x @ k_weight])` are all keys. The mask has a row per new token and a column per key, "
        "and the last row sees everything: `tril(len(keys) - len(x))`.",
        "In the loop: scores of `x @ q_weight` against `keys.T`, scaled by `keys.shape[1] ** -0.5`; mask and softmax; "
        "`x = x + weights @ values`.",
    ),
    calls=4,
    also=({"past": 0}, {"new": 1}),
    draw_edges=({"past": 0, "new": 1}, {"layer": 1}),
    arguments={
        "x": "new m",
        "q_weights": "layer m d",
        "k_weight": "m d",
        "v_weight": "m m",
        "past_keys": "past d",
        "past_values": "past m",
    },
    axes="x keys values",
    fixed="m d past",
    gradients=("x", "q_weights", "k_weight", "v_weight"),
    wrong="""
scores = => keys, values = (keys, values) if len(past_keys) else (x @ k_weight, x @ v_weight); scores =
    layers that share only where there is a cache: without one, each layer computes keys and values again [paths-differ]
    ? Your function with 5 tokens at once, and with 4 in the past and 1 new: why do they differ?
scores = => keys, values = torch.cat([past_keys, x @ k_weight]), torch.cat([past_values, x @ v_weight]); scores =
    keys and values that each layer computes again from its own x
    ? From which `x` are the shared keys computed?
.tril(len(keys) - len(x)) => .tril()
    a mask that begins in the top left corner, whatever is in the past [causal-top-left]
    ? Two new tokens meet six keys. Which key is the last that the first of them may see?
* keys.shape[1] ** -0.5 => * 1.0
    scores that aren't divided by the square root of d [missing-scale]
    ? By what are the scores divided before the softmax?
keys = torch.cat([past_keys, x @ k_weight]) => keys = x @ k_weight && values = torch.cat([past_values, x @ v_weight]) => values = x @ v_weight
    layers that forget the past [stale-cache]
    ? Which keys should the new tokens see besides their own?
""",
)
