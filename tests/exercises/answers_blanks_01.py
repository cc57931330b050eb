"""Answers to the blanks of lesson 01, right and wrong, as learners write them."""

import math

import torch
import torch.nn.functional as F

from tests.exercises.written_answers import TEMPLATES, edited, run_cell

HEAD = TEMPLATES["SingleHeadWithGaps"].replace("SingleHeadWithGaps", "MyHead")


def weights_by_loop(scores):
    parts = [math.exp(score) for score in scores.tolist()]
    return torch.tensor([part / sum(parts) for part in parts], dtype=scores.dtype)


def head(edit):
    return run_cell(edited(HEAD, edit), "MyHead")


RIGHT = {
    "attention_weights": [lambda s: s.softmax(dim=0), lambda s: F.softmax(s, -1), weights_by_loop],
    "context_of_token": [
        lambda w, v: w @ v,
        lambda w, v: (w[:, None] * v).sum(0),
        lambda w, v: torch.einsum("k,kd->d", w, v),
        lambda w, v: sum(weight * value for weight, value in zip(w, v, strict=True)),
    ],
    "MyHead": [
        run_cell(HEAD, "MyHead"),
        head("return weights @ values => return F.scaled_dot_product_attention(queries, keys, values)"),
    ],
}
WRONG = {
    "attention_weights": [
        (lambda s: s.sigmoid(), "Ask yourself"),
    ],
    "context_of_token": [
        (lambda w, v: w * v, "stopped", "RuntimeError"),
    ],
    "MyHead": [
        (head("/ queries.shape[-1] ** 0.5 => "), "missing-scale"),
        (head("keys.transpose(1, 2) => values.transpose(1, 2)"), "scores-from-values"),
        (head("softmax(dim=-1) => softmax(dim=1)"), "softmax-wrong-axis"),
    ],
}
