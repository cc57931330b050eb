"""Examine code for tokens with several axes, such as the pixels of a grid, as code for a row of tokens."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from .calling import usual_call
from .run import noise_of
from .subject import Subject, SubjectFailed

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


def as_row(code: Callable[..., Any], x: Tensor, call: Callable[..., Any] | None) -> tuple[Tensor, Callable[..., Any]]:
    """Return the tokens of x, (batch, *axes, width), as (batch, token, width), and how to run code on these.

    Code with weights for the width of the second axis of x and none for that of the last gets (batch, width, *axes).
    A context, if `call` takes one, stays as it is.
    """
    run = call or usual_call(code)
    first = _takes_width_first(code, x)
    axes = x.shape[2:] if first else x.shape[1:-1]

    def to_grid(tokens: Tensor) -> Tensor:
        return tokens.mT.unflatten(2, axes) if first else tokens.unflatten(1, axes)

    @wraps(run)
    def run_on_row(code: Any, tokens: Tensor, *context: Tensor) -> Any:
        output = run(code, to_grid(tokens).contiguous(), *context)
        if not isinstance(output, Tensor) or output.dim() != x.dim():
            return output
        own = output.shape[2:] if first else output.shape[1:-1]
        if own != axes:
            return output
        return output.flatten(2).mT if first else output.flatten(1, -2)

    return (x.flatten(2).mT if first else x.flatten(1, -2)).contiguous(), run_on_row


def _takes_width_first(code: Callable[..., Any], x: Tensor) -> bool:
    modules = list(code.modules()) if isinstance(code, nn.Module) else []
    widths = {one.in_features for one in modules if isinstance(one, nn.Linear)}
    widths |= {one.in_channels for one in modules if isinstance(one, CONVOLUTIONS)}
    return x.shape[1] in widths and x.shape[-1] not in widths


def groups_of(subject: Subject, x: Tensor) -> Tensor | None:
    """Return which token may see which, bool (token, token), if they see each other in groups of equal sizes.

    The groups may be the rows, the columns or the windows of a grid; None if all tokens are one group, or there are no
    groups.
    """
    x, columns = x.double(), []
    noise = noise_of(x.shape, seed=29)  # which no norm removes
    try:
        before = subject.run(x)
        for token in range(x.shape[1]):
            moved = x.clone()
            moved[:, token] += noise[:, token]
            columns.append((subject.run(moved) - before).abs().nan_to_num(nan=torch.inf).flatten(2).amax((0, 2)) > 1e-9)
        seen = torch.stack(columns, dim=1)
    except (SubjectFailed, RuntimeError, IndexError):  # or its output has no row for each token
        return None
    if seen.shape != (len(columns), len(columns)):
        return None
    together = seen | seen.mT | torch.eye(len(seen), dtype=torch.bool)
    closed = (together.double() @ together.double() > 0) == together  # who is seen by a token's group is in it
    sizes = set(together.sum(1).tolist())
    return together if bool(closed.all()) and len(sizes) == 1 and sizes.isdisjoint({1, len(seen)}) else None
