"""Answers to the blanks of lesson 05, right and wrong, as learners write them."""

import torch
import torch.nn.functional as F


def rows_by_loop(weight, head, num_heads):
    rows = []
    for row in range(weight.shape[0]):
        if row * num_heads // weight.shape[0] == head:
            rows.append(weight[row])
    return torch.stack(rows)


def heads_one_by_one(x, weight, num_heads):
    return torch.stack([x @ rows.T for rows in weight.chunk(num_heads)], dim=1)


RIGHT = {
    "rows_of_head": [
        rows_by_loop,
        lambda w, head, h: w.chunk(h)[head],
        lambda w, head, h: w.reshape(h, -1, w.shape[1])[head],
    ],
    "project_to_heads": [
        heads_one_by_one,
        lambda x, w, h: F.linear(x, w).unflatten(-1, (h, -1)).transpose(1, 2),
        lambda x, w, h: torch.einsum("btm,hdm->bhtd", x, w.unflatten(0, (h, -1))),
    ],
}

WRONG = {
    "rows_of_head": [
        (lambda w, head, h: w[:, head * (len(w) // h) : (head + 1) * (len(w) // h)], "shape"),
        (lambda w, head, h: w.chunk(h)[h - 1 - head], "counted from the end"),
    ],
    "project_to_heads": [
        (lambda x, w, h: (x @ w).view(*x.shape[:2], h, -1).transpose(1, 2), "stopped", "RuntimeError"),
    ],
}
