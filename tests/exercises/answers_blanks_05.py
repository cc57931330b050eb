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
        (lambda w, head, h: w[head::h], "every h-th row"),
        (lambda w, head, h: w[: len(w) // h], "rows of head 0"),
        (lambda w, head, h: w[head], "one row"),
        (lambda w, head, h: w[:, head * (len(w) // h) : (head + 1) * (len(w) // h)], "shape"),
        (lambda w, head, h: w[head * h : (head + 1) * h], "as many rows as there are heads"),
    ],
    "project_to_heads": [
        (lambda x, w, h: (x @ w.T).view(x.shape[0], h, x.shape[1], -1), "split-without-transpose"),
        (lambda x, w, h: (x @ w.T).view(*x.shape[:2], h, -1), "without the exchange"),
        (lambda x, w, h: (x @ w).view(*x.shape[:2], h, -1).transpose(1, 2), "stopped", "RuntimeError"),
        (lambda x, w, h: (x @ w.T).view(*x.shape[:2], -1, h).permute(0, 3, 1, 2), "every h-th element"),
        (lambda x, w, h: x @ w.T, "not yet split"),
    ],
}
