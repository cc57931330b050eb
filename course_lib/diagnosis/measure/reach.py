"""Compare the tokens that reach each output with those that may, through any number of attentions."""

from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.tracing import Operation, Value

from .dependence import Dependence


@dataclass(frozen=True, eq=False)
class Leak:
    """A token of the input that changes an output from which it should be hidden.

    Attributes:
        token, other: of the output, and of the input.
        operation: the first whose result has it, or None.
    """

    token: int
    other: int
    operation: Operation | None


def find_leak(dependence: Dependence) -> Leak | None:
    """Return the first token that reaches an output although no chain of visible pairs leads there, or None."""
    run = dependence.run
    batch, num_tokens = dependence.sizes
    pairs = run.options.expected_keep(batch, run.options.num_heads or 1, num_tokens).any(1)
    allowed = closure(pairs)
    if run.options.num_context:  # a norm may run over the tokens that ask it; nobody said that they are hidden
        queries = num_tokens - run.options.num_context
        allowed[:, :queries, :queries] = True
    stray = _reached(dependence, run.output) & ~allowed
    if not stray.any():
        return None
    _, token, other = stray.nonzero()[0].tolist()
    rows = (op for op in run.live_operations if op.outputs and op.outputs[0].tensor.shape[:2] == (batch, num_tokens))
    first = next((op for op in rows if (_reached(dependence, op.outputs[0]) & ~allowed).any()), None)
    return Leak(token, other, first)


def find_displaced_row(dependence: Dependence) -> tuple[int, int] | None:
    """Return the first row of the output that its own token does not change although another one does, and that token.

    A query is made of its own token, so that a row which is right moves with it. In causal code, rows that move with
    earlier tokens alone are right, too: its inputs may begin with a start token.
    """
    reached = _reached(dependence, dependence.run.output)
    own = reached.diagonal(dim1=1, dim2=2)
    batch, num_tokens = dependence.sizes
    options = dependence.run.options
    kept = options.expected_keep(batch, options.num_heads or 1, num_tokens).any(1).diagonal(dim1=1, dim2=2)
    others = reached.triu(1) if options.causal else reached
    displaced = kept & ~own & others.any(-1)
    if not displaced.any():
        return None
    sample, row = displaced.nonzero()[0].tolist()
    return row, int(others[sample, row].nonzero()[0])


def closure(pairs: Tensor) -> Tensor:
    """Return which token reaches which through any number of attentions, and past them; bool (batch, query, key)."""
    reached = pairs | torch.eye(pairs.shape[-1], dtype=torch.bool)
    while True:
        further = (reached.double() @ reached.double()) > 0
        if torch.equal(further, reached):
            return reached
        reached = further


def _reached(dependence: Dependence, value: Value) -> Tensor:
    """Return which token changes each row of a value of (batch, token, ...); bool (batch, token, token)."""
    num_tokens = dependence.sizes[1]
    bits = dependence.tokens[value.number].reshape(*value.tensor.shape[:2], -1)
    return ((bits[..., None] >> torch.arange(num_tokens)) & 1).bool().any(2)
