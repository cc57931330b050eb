"""Muon: an optimizer for matrices."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


class Muon(torch.optim.Optimizer):
    """Momentum of which each matrix is made orthogonal: all directions of a step are equally large.

        M = momentum M + G;  U S V^T = momentum M + G;  W = W - lr sqrt(max(1, rows / columns)) U V^T

    U V^T comes from five steps of a Newton-Schulz iteration, without a decomposition.

    Args:
        matrices: Parameters of two axes.
        lr: How far a step goes.
        momentum: What share of the earlier gradients is kept.

    Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, momentum: float = 0.95) -> None:
        super().__init__(matrices, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Move each matrix one step."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is None:  # nothing uses it
                    continue
                mean = self.state[matrix].setdefault("mean", torch.zeros_like(matrix))
                mean.mul_(group["momentum"]).add_(matrix.grad)
                direction = orthogonal(matrix.grad + group["momentum"] * mean)
                matrix.sub_(group["lr"] * max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5 * direction)


def orthogonal(matrix: Tensor) -> Tensor:
    """The matrix with singular values near 1: U V^T of U S V^T, nearly."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / (wide.norm() + 1e-7)
    for _ in range(5):
        gram = wide @ wide.T
        wide = 3.4445 * wide + (2.0315 * gram @ gram - 4.775 * gram) @ wide
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T
