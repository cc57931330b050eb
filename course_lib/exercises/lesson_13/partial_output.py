"""What one device adds."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.exercises.exercise import Case
from course_lib.exercises.function_exercise import FunctionExercise
from course_lib.exercises.input_generator import InputGenerator


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


def _scores(x: Tensor, w_q: Tensor, w_k: Tensor, width: int, scale: float, causal: bool = True) -> Tensor:
    queries, keys = ((x @ weight.T).unflatten(-1, (-1, width)).transpose(1, 2) for weight in (w_q, w_k))
    keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
    return (queries @ keys.mT * scale).masked_fill(~(keep.tril() if causal else keep), -torch.inf)


def _context(x: Tensor, w: tuple[Tensor, ...], width: int, scale: float | None = None, causal: bool = True) -> Tensor:
    weights = _scores(x, w[0], w[1], width, scale or width**-0.5, causal).softmax(-1)
    return weights @ (x @ w[2].T).unflatten(-1, (-1, width)).transpose(1, 2)


def _filled(x: Tensor, w: tuple[Tensor, ...], width: int, fill: float, inverted: bool = False) -> Tensor:
    keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    scores = _scores(x, w[0], w[1], width, width**-0.5, causal=False)
    weights = scores.masked_fill(keep if inverted else ~keep, fill).softmax(-1)
    return weights @ (x @ w[2].T).unflatten(-1, (-1, width)).transpose(1, 2)


def _after_softmax(x: Tensor, w: tuple[Tensor, ...], width: int) -> Tensor:
    weights = _scores(x, w[0], w[1], width, width**-0.5, causal=False).softmax(-1).tril()
    return weights @ (x @ w[2].T).unflatten(-1, (-1, width)).transpose(1, 2)


def _cut_by_view(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, width: int) -> Tensor:
    queries, keys, values = ((x @ w.T).reshape(len(x), -1, x.shape[1], width) for w in (w_q, w_k, w_v))
    keep = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    weights = (queries @ keys.mT * width**-0.5).masked_fill(~keep, -torch.inf).softmax(-1)
    return _output(weights @ values, w_o)


def _one_head(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, width: int) -> Tensor:
    return partial_output(x, w_q, w_k, w_v, w_o, len(w_q))


def _output(context: Tensor, w_o: Tensor) -> Tensor:
    return context.transpose(1, 2).flatten(2) @ w_o.T


def _scrambled(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, width: int) -> Tensor:
    return _context(x, (w_q, w_k, w_v), width).reshape(*x.shape[:2], -1) @ w_o.T


def _summed_heads(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor, w_o: Tensor, width: int) -> Tensor:
    return sum(
        (_context(x, (w_q, w_k, w_v), width).sum(1) @ part.T for part in w_o.split(width, 1)),
        torch.zeros((), dtype=x.dtype),
    )


def _draw(rng: InputGenerator) -> list[Case]:
    cases = []
    for batch, tokens, heads, width in rng.size_rows(3, 4, 2, 7):
        d_in, d_out = (2 * heads * width + extra for extra in rng.sizes(2, 1, 5))  # there are other devices, too
        projections = [rng.normal(heads * width, d_in, std=1.5 * d_in**-0.5) for _ in range(3)]
        w_o = rng.normal(d_out, heads * width, std=width**-0.5)
        cases.append(Case((rng.normal(batch, tokens, d_in), *projections, w_o, width)))
    x, w_q, w_k, w_v, w_o, width = cases[0].arguments
    cases.append(Case((x[:1, :1], w_q, w_k, w_v, w_o, width), "there is one sample of one token"))
    alone = (w_q[:width], w_k[:width], w_v[:width], w_o[:, :width], width)
    # Keys that point away from the queries: the first token's score, the only one of its row, is -20000 or less.
    lowest = float((x[:, 0] @ w_q.T).unflatten(-1, (-1, width)).square().sum(-1).min()) * width**-0.5
    factor = (20000.0 / lowest) ** 0.5
    large = (x, factor * w_q, -factor * w_q, w_v, w_o, width)
    return [*cases, Case((x, *alone), "the device has a single head"), Case(large, "the scores are -20000 and less")]


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
    draw=_draw,
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
_context(x, (w_q, w_k, w_v), head_dim).transpose(1, 2).flatten(2)
    the heads' context, before `w_o`: the parts of two devices can't be added like that [output-projection-missing]
_one_head(x, w_q, w_k, w_v, w_o, head_dim)
    one wide head in place of the device's heads
    ? How many heads does the device have, and how wide is each?
scores.masked_fill(~keep, -torch.inf) => scores
    the output without a mask [no-causal-mask]
0.5 => 0.0
    the output without the division [missing-scale]
_output(_context(x, (w_q, w_k, w_v), head_dim, len(w_q) ** (-0.5)), w_o)
    the output scaled by the width over the device's heads [wrong-scale]
head_dim* => _*
    the output scaled by d_in [wrong-scale]
_output(_filled(x, (w_q, w_k, w_v), head_dim, -20.0), w_o)
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
_output(_filled(x, (w_q, w_k, w_v), head_dim, -30.0), w_o)
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
_output(_filled(x, (w_q, w_k, w_v), head_dim, -50.0), w_o)
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
_output(_filled(x, (w_q, w_k, w_v), head_dim, -100.0), w_o)
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
_output(_filled(x, (w_q, w_k, w_v), head_dim, -1e3), w_o)
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
_output(_filled(x, (w_q, w_k, w_v), head_dim, -1e4), w_o)
    the output with hidden scores that are not below all others: the check has scores of -20000
    ? Which number is below every score, however low?
_output(_filled(x, (w_q, w_k, w_v), head_dim, 0.0), w_o)
    the output with hidden scores of 0 [mask-with-zero]
_output(_after_softmax(x, (w_q, w_k, w_v), head_dim), w_o)
    the output with the mask applied after softmax [mask-after-softmax]
~keep => keep
    the output with the mask upside down: each token sees later ones only [mask-inverted]
_cut_by_view(x, w_q, w_k, w_v, w_o, head_dim)
    heads that are cut by a view alone [split-without-transpose]
_scrambled(x, w_q, w_k, w_v, w_o, head_dim)
    heads that are merged by a reshape alone [merge-without-transpose]
_summed_heads(x, w_q, w_k, w_v, w_o, head_dim)
    heads that are added before they meet `w_o` [heads-averaged]
(w_q, w_k, w_v) => (w_k, w_q, w_v)
    the output with queries and keys exchanged [projection-reused]
""",
)
