"""The lines of the weight split, to be put in order."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.exercises.input_generator import InputGenerator
from course_lib.exercises.order_exercise import OrderExercise, listing

LINES = {
    "A": "weights = scores.softmax(dim=-1)",
    "B": "queries, keys, values = (each.transpose(1, 2) for each in (queries, keys, values))",
    "C": "output = merged @ w_o",
    "D": "scores = queries @ keys.transpose(2, 3)",
    "E": "context = weights @ values",
    "F": "queries, keys, values = x @ w_q, x @ w_k, x @ w_v",
    "G": "merged = context.reshape(batch, num_tokens, num_heads * head_dim)",
    "H": "scores = scores * head_dim**-0.5",
    "I": "queries, keys, values = (each.view(per_head) for each in (queries, keys, values))",
    "J": "context = context.transpose(1, 2)",
    "K": "scores = scores.masked_fill(hidden, -torch.inf)",
}


def order_of_lines():
    # -> the eleven letters in the order in which the lines run, such as "ABCDEFGHIJK"
    return "FIBDHKAEJGC"


def _draw(rng: InputGenerator) -> dict[str, Any]:
    batch, num_tokens, num_heads, head_dim = rng.sizes(4, 2, 7)
    d_in, d_out = 11, num_heads * head_dim
    weights = {name: rng.normal(d_in, d_out, std=d_in**-0.5) for name in ("w_q", "w_k", "w_v")}
    return {
        "x": rng.normal(batch, num_tokens, d_in, std=2.0),
        "w_o": rng.normal(d_out, d_out),
        "hidden": torch.ones(num_tokens, num_tokens, dtype=torch.bool).triu(1),
        **weights,
        **{"batch": batch, "num_tokens": num_tokens, "num_heads": num_heads, "head_dim": head_dim},
        "per_head": (batch, num_tokens, num_heads, head_dim),
    }


EXERCISE = OrderExercise(
    order_of_lines,
    title="Eleven lines in order",
    difficulty=2,
    minutes=6,
    prompt=(
        "These are the lines of causal multi-head attention with split weights, shuffled. `x`, the four matrices, the "
        "mask `hidden`, the sizes and `per_head = (batch, num_tokens, num_heads, head_dim)` exist before the first of "
        "them. In which order do they run?\n\n"
        "```python\n" + listing(LINES) + "\n```\n\n"
        "The check runs them in your order and draws what each line made. Any order passes in which each line finds "
        "what it reads and the output is right."
    ),
    hints=(
        "Begin at the end: which line makes the output, what does it read, and which line makes that?",
        "Project, view, transpose; scores, scale, mask, softmax; multiply by the values, and all the way back.",
        "The mask comes after the product and before softmax. On the way back the transpose comes before the reshape.",
    ),
    lines=LINES,
    draw=_draw,
    result="output",
)
