"""What one device adds."""

import torch

from course_lib.exercises.function_exercise import FunctionExercise


def partial_output(
    x, w_q, w_k, w_v, w_o, head_dim
):  # (b, t, d_in), 3 x (h * d, d_in), (d_out, h * d), int -> (b, t, d_out)
    batch, num_tokens, _ = x.shape
    queries, keys, values = (
        # (b, t, h * d) -> (b, h, t, d)
        (x @ weight.T).view(batch, num_tokens, -1, head_dim).transpose(1, 2)
        for weight in (w_q, w_k, w_v)
    )
    keep = torch.ones(num_tokens, num_tokens, dtype=torch.bool, device=x.device).tril()
    scores = queries * head_dim**-0.5 @ keys.transpose(2, 3)  # (b, h, q, k)
    context = scores.masked_fill(~keep, -torch.inf).softmax(dim=-1) @ values
    # (b, h, t, d) -> (b, t, h * d) -> (b, t, d_out)
    return context.transpose(1, 2).flatten(2) @ w_o.T


EXERCISE = FunctionExercise(
    partial_output,
    title="What one device adds",
    difficulty=3,
    minutes=10,
    prompt=(
        "One device holds its rows of the three projections, `w_q`, `w_k` and `w_v`, each (heads of this device * "
        "head_dim, d_in), and its columns of `out_proj`, `w_o`, (d_out, heads of this device * head_dim). Give back "
        "its part of the layer's output, (batch, token, d_out): causal, without bias. Added over all devices, these "
        "parts are the whole output. How many heads the device has follows from the shapes. The check also comes with "
        "scores of -20000 and less."
    ),
    hints=(
        "It is multi-head attention as ever, with fewer heads. Only the number of heads must come from somewhere.",
        "`w_q` has heads * head_dim rows. In `view(batch, num_tokens, -1, head_dim)` PyTorch counts the heads for you.",
        "Split, transpose, scale by head_dim ** -0.5, mask, softmax, weigh the values, transpose back and flatten; "
        "then `merged @ w_o.T`, which is (batch, token, d_out) although the device has only some of the heads.",
    ),
    inputs={
        "d_in": lambda heads, head_dim, more: 2 * heads * head_dim + more,  # there are other devices, too
        "d_out": lambda heads, head_dim, extra: 2 * heads * head_dim + extra,
        "w_q": lambda w_q, d_in: w_q * d_in**-0.5,
        "w_k": lambda w_k, d_in: w_k * d_in**-0.5,
        "w_v": lambda w_v, d_in: w_v * d_in**-0.5,
    },
    sizes=(2, 7),
    std=1.2,
    special={
        "there is one sample of one token": {"batch": 1, "token": 1},
        "the device has a single head": {"heads": 1},
        # Keys that point away from the queries: the first token's score is the only one of its row.
        "the scores are -20000 and less": {"w_q": lambda w_q: 3000.0 * w_q, "w_k": lambda w_q: -w_q},
    },
    arguments={
        "x": "batch token d_in",
        "w_q": "heads*head_dim d_in",
        "w_k": "heads*head_dim d_in",
        "w_v": "heads*head_dim d_in",
        "w_o": "d_out heads*head_dim",
    },
    axes="batch token d_out",
    gradients=("x", "w_q", "w_k", "w_v", "w_o"),
    wrong="""
flatten(2) @ w_o.T => flatten(2)
    the heads' context, before `w_o`: the parts of two devices can't be added like that [output-projection-missing]
right(x, w_q, w_k, w_v, w_o, len(w_q))
    one wide head in place of the device's heads
    ? How many heads does the device have, and how wide is each?
scores.masked_fill(~keep, -torch.inf) => scores
    the output without a mask [no-causal-mask]
-torch.inf => -20.0
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
-torch.inf => -30.0
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
-torch.inf => -50.0
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
-torch.inf => -100.0
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
-torch.inf => -1e3
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
-torch.inf => -1e4
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
context.transpose(1, 2).flatten(2) @ w_o.T => context.sum(1) @ sum(w_o.split(head_dim, 1)).T
    heads that are added before they meet `w_o` [heads-averaged]
(w_q, w_k, w_v) => (w_k, w_q, w_v)
    the output with queries and keys exchanged [projection-reused]
""",
)
