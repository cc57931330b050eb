"""Compare the tokens that reach each output with those that may, through any number of attentions."""

from dataclasses import dataclass

import torch
from torch import Tensor

from course_lib.tracing import Operation, SourceLine, Value

from .dependence import Dependence
from .operation_names import SOFTMAXES
from .run import Run
from .score_products import find_score_products


@dataclass(frozen=True, eq=False)
class Leak:
    """A token of the input that changes an output from which it should be hidden.

    Attributes:
        token, other: of the output, and of the input.
        operation: the first whose result has it, or None.
        is_behind: whether it is a later token, and that comes after an attention that hides what it should.
    """

    token: int
    other: int
    operation: Operation | None
    is_behind: bool = False

    @property
    def where(self) -> SourceLine | None:
        """The line of the operation."""
        return None if self.operation is None else self.operation.where

    @property
    def evidence(self) -> str:
        """What was measured."""
        return f"the output of token {self.token} moves when token {self.other} changes"


def find_leak(dependence: Dependence, *, masked: bool = False) -> Leak | None:
    """Return the first token that reaches an output although no chain of visible pairs leads there, or None.

    With `masked`, the attentions are known to hide what they should, and so their scores are not where that is seen.
    """
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
    scored = _scored(run) if masked else set()
    first = _first(dependence, allowed, scored)
    behind = first is not None and other > token and not scored.isdisjoint(run.trace.ancestors(first.inputs))
    return Leak(token, other, first, behind)


def _first(dependence: Dependence, allowed: Tensor, scored: set[int]) -> Operation | None:
    """Return the first operation, from the output back to rows that are right, whose rows know of hidden tokens."""
    run, found, seen = dependence.run, set[int](), set[int]()
    waiting = [(run.output, len(run.trace.operations))]
    while waiting:
        for number in run.trace.writers_of(*waiting.pop()):
            operation = run.trace.operations[number]
            if number in seen or not operation.outputs:
                continue
            seen.add(number)
            if operation.outputs[0].tensor.shape[:2] == dependence.sizes:
                if not (_reached(dependence, operation.outputs[0]) & ~allowed).any():
                    continue
                found.add(number)
            waiting.extend((value, number) for value in operation.inputs)
    return run.trace.operations[min(found - scored)] if found - scored else None


def _scored(run: Run) -> set[int]:
    """Return the operations from the products of queries and keys to their softmax."""
    softmaxes = [one for one in run.live_operations if one.name in SOFTMAXES]
    found: set[int] = set()
    for product in find_score_products(run.trace):
        after = run.trace.descendants({product.operation.number})
        softmax = next((one for one in softmaxes if one.number in after), None)
        if softmax is not None:
            found |= {product.operation.number, softmax.number}
            found |= after.intersection(run.trace.ancestors(softmax.inputs))
    return found


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
