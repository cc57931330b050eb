"""Answers to the blank of lesson 00, right and wrong, as learners write them."""

import torch

RIGHT = {
    "row_sums": [
        lambda weights: weights.sum(-1),
        lambda weights: torch.stack([row.sum() for row in weights]),
        lambda weights: torch.einsum("qk->q", weights),
    ]
}
WRONG = {
    "row_sums": [
        (lambda weights: weights.sum(0), "the sum of each column"),
        (lambda weights: weights.sum(), "the sum of the whole table"),
        (lambda weights: weights.mean(1), "the mean of each row"),
        (lambda weights: weights.max(1).values, "the largest number of each row"),
        (lambda weights: weights.sum(1, keepdim=True), "it should be"),
        (lambda weights: weights.abs().sum(1), "it should be"),
    ]
}
