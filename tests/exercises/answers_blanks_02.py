"""Answers to the blanks of lesson 02, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F

from tests.exercises.written_answers import TEMPLATES, edited, run_cell

UNMASKED = TEMPLATES["SingleHeadWithGaps"].replace("SingleHeadWithGaps", "MyCausalHead")
MASKED = edited(
    UNMASKED,
    "weights = (scores / queries.shape[-1] ** 0.5).softmax(dim=-1) => scores = scores / queries.shape[-1] ** 0.5"
    " | t = x.shape[1]"
    " | keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()"
    " | scores = scores.masked_fill(~keep, -torch.inf)"
    " | weights = scores.softmax(dim=-1)",
)
FILL = "scores = scores.masked_fill(~keep, -torch.inf) => "


def head(edit):
    return run_cell(edited(MASKED, edit), "MyCausalHead")


def masked_by_loop(scores, keep):
    weights = torch.zeros_like(scores)
    for query in range(len(scores)):
        weights[query, keep[query]] = scores[query, keep[query]].softmax(0)
    return weights


RIGHT = {
    "masked_weights": [
        masked_by_loop,
        lambda s, k: torch.where(k, s, -torch.inf).softmax(-1),
        lambda s, k: F.softmax(s + torch.zeros_like(s).masked_fill(~k, -torch.inf), dim=1),
    ],
    "earlier_outputs_moved": [
        lambda b, a: (b[:, :-1] - a[:, :-1]).abs().max(),
        lambda b, a: torch.dist(b[:, :-1], a[:, :-1], torch.inf),
        lambda b, a: (a - b).abs().amax(dim=(0, 2))[:-1].amax(),
        lambda b, a: (b[:, :-1] - a[:, :-1]).abs().max().item(),
    ],
    "MyCausalHead": [
        run_cell(MASKED, "MyCausalHead"),
        head("return weights @ values => return F.scaled_dot_product_attention(queries, keys, values, is_causal=True)"),
        head(f"{FILL}scores = scores + (~keep).to(x.dtype).masked_fill(~keep, -torch.inf)"),
    ],
}
WRONG = {
    "masked_weights": [
        (lambda s, k: torch.where(k, s, s * 0).softmax(-1), "mask-with-zero", "hidden scores are 0"),
    ],
    "earlier_outputs_moved": [
        (lambda b, a: (a - b).abs()[:, :-1].max(-1), "both tensors of `max`"),
    ],
    "MyCausalHead": [
        (head(f"{FILL}scores = scores.masked_fill(~keep, 0.0)"), "mask-with-zero"),
        (
            head("weights = scores.softmax(dim=-1) => weights = scores.softmax(dim=-1) * keep && " + FILL),
            "mask-after-softmax",
        ),
        (head("tril() => tril(-1)"), "mask-off-by-one"),
    ],
}
