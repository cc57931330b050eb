"""Find the tokens and samples that each element depends on: change one, run again and compare."""

from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from course_lib.tracing import UNLABELLED, Change, Value, replay

from .options import MOST_TOKENS
from .run import NotFound, Run, changed_elements, noise_of
from .subject import SubjectFailed

ROUTING = {"sort", "topk", "argsort", "nonzero", "bincount"}  # a router's choice may become a size, which a trace keeps
RELUS = ("relu", "relu_", "threshold", "clamp_min")
SEVERAL = -2  # the token, or the sample, of an element that depends on more than one


@dataclass(frozen=True, eq=False)
class Dependence:
    """The tokens and samples that each element of a run depends on.

    Attributes:
        run: whose output has a row per token.
        tokens, samples: per value, for each element a bit mask of the tokens, or samples, that it depends on.
    """

    run: Run
    tokens: list[Tensor]
    samples: list[Tensor]

    @property
    def sizes(self) -> tuple[int, int]:
        """batch, num_tokens"""
        return self.run.x.shape[0], self.run.x.shape[1]

    @cached_property
    def _token_of(self) -> dict[int, Tensor]:
        return {}  # by the number of the value, filled when they are asked for

    def token_of(self, value: Value) -> Tensor:
        """Return the token of each element: UNLABELLED if it depends on none, SEVERAL if on more."""
        if value.number not in self._token_of:
            self._token_of[value.number] = only_bit(self.tokens[value.number])
        return self._token_of[value.number]

    def sample_of(self, value: Value) -> Tensor:
        """Return the sample of each element: UNLABELLED if it depends on none, SEVERAL if on more."""
        return only_bit(self.samples[value.number])

    def on_input(self, value: Value) -> bool:
        """Return whether any element depends on a token."""
        return bool(self.tokens[value.number].any())

    def combines_tokens(self, value: Value) -> bool:
        """Return whether any element depends on several tokens."""
        return bool((self.token_of(value) == SEVERAL).any())

    def combines_samples(self, value: Value) -> bool:
        """Return whether any element depends on several samples."""
        return bool((self.sample_of(value) == SEVERAL).any())

    def keeps_tokens_apart(self, value: Value) -> bool:
        """Return whether each element depends on at most one token, and some element on exactly one."""
        token = self.token_of(value)
        return not (token == SEVERAL).any() and bool((token >= 0).any())


def only_bit(bits: Tensor) -> Tensor:
    """Return the index of the only bit that is set: UNLABELLED if none is, SEVERAL if more are."""
    one = (bits & (bits - 1)) == 0
    index = torch.where(bits > 0, bits, 1).double().log2().round().long()
    return torch.where(bits == 0, UNLABELLED, torch.where(one, index, SEVERAL))


def measure_dependence(run: Run) -> Dependence | None:
    """Change each token and each sample in turn and run again; None if the output has no row per token.

    Raises:
        NotFound: shapes depend on the values of the input, or the code takes no few tokens.
    """
    batch, num_tokens = run.x.shape[:2]
    shape = run.output.tensor.shape
    if len(shape) != 3 or shape[:2] != (batch, num_tokens):
        return None
    if max(batch, num_tokens) > MOST_TOKENS:
        raise NotFound(f"it takes no fewer than {num_tokens} tokens, and at most {MOST_TOKENS} can be traced")
    return Dependence(run, _bits(run, 1, num_tokens), _bits(run, 0, batch))


def _bits(run: Run, axis: int, count: int) -> list[Tensor]:
    trace, x = run.trace, run.x
    noise = noise_of(x.shape, seed=7).to(x.dtype)
    alive = _all_alive(run)
    with_all = replay(trace, before=alive) if alive else []
    routes = not ROUTING.isdisjoint(operation.name for operation in trace.operations)
    found = [torch.zeros(value.tensor.shape, dtype=torch.int64) for value in trace.values]
    for index in range(count):
        here = torch.zeros(x.shape[:2], dtype=torch.bool)
        here.select(axis, index).fill_(True)
        other = torch.where(here[..., None], x + noise, x)
        seen = replay(trace, other)
        if routes and _differs(run, other, seen[run.output.number]):
            raise NotFound("its router decides on sizes, and so its trace holds for one input only")
        _set_bit(index, found, seen, [value.tensor for value in trace.values])
        if alive:
            _set_bit(index, found, replay(trace, other, before=alive), with_all)
    return found


def _set_bit(index: int, found: list[Tensor], now: list[Tensor], before: list[Tensor]) -> None:
    """Set one bit in the elements of `found` whose elements of `now` and `before` differ."""
    moved: dict[tuple[torch.dtype, torch.device], list[tuple[Tensor, Tensor, Tensor]]] = {}
    for bits, new, old in zip(found, now, before, strict=True):
        if new is not old and not torch.equal(new, old):  # most tensors do not change
            moved.setdefault((new.dtype, new.device), []).append((bits, new, old))
    for alike in moved.values():  # compared together: a comparison takes a hundred times as long as its elements
        differs = changed_elements([new for _, new, _ in alike], [old for _, _, old in alike])
        for (bits, _, _), part in zip(alike, differs, strict=True):
            bits |= part.long() << index


def _all_alive(run: Run) -> dict[tuple[int, int], Change]:
    """Return for each ReLU how to change its argument so that no element is 0, whose dependence would not show."""
    found: dict[tuple[int, int], Change] = {}
    for operation in run.live_operations:
        if operation.name in RELUS and operation.inputs[0].tensor.numel():
            shift = 4 * float(operation.inputs[0].tensor.abs().max())
            found[operation.number, 0] = partial(torch.add, other=shift)
    return found


def _differs(run: Run, x: Tensor, replayed: Tensor) -> bool:
    """Return whether a replay on x gives another output than the code itself."""
    try:
        output = run.subject.run(x)
    except SubjectFailed:
        return False
    return output.shape != replayed.shape or not torch.allclose(output.double(), replayed.double(), equal_nan=True)
