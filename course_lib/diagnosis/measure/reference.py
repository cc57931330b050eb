"""Align the trace of code with that of a reference, and find the first value that the reference does not compute."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import permutations
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.tracing import LAYOUT, Operation, Trace, Value

from .calling import call_with
from .embedded import EmbeddedSubject, embedded
from .run import Attempt, Run, measure_run
from .scalings import SCALINGS
from .shared_mask import Make, shared_mask, shared_parameters
from .subject import Subject, SubjectFailed

RELATIVE, ABSOLUTE = 1e-7, 1e-9
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")  # of a BatchNorm, which learns them


@dataclass(frozen=True, eq=False)
class Difference:
    """Where a run first differs from its reference.

    Attributes:
        operation: the operation that makes the first different value; None if only the shapes of the outputs differ.
        nearest: the value of the reference that is most like it; None if none has as many elements.
        apart: the largest difference between the two.
        output: the largest difference between the outputs; inf if their shapes differ.
    """

    operation: Operation | None
    nearest: Value | None
    apart: float
    output: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """A run and that of its reference on the same x.

    Attributes:
        run: of the code.
        trace: of the reference.
        right: what the reference returned, (batch, token, width).
        unlike: the parameters that only one has, or that differ in shape: with any, each keeps its own.
        how: both were called in another way than the run, such as "without `mask`"; "" if they were not.
        has_own_weights: whether most elements of the code's matrices are in none of the reference, whatever the names.
    """

    run: Run
    trace: Trace
    right: Tensor
    unlike: tuple[str, ...] = ()
    how: str = ""
    has_own_weights: bool = False

    @property
    def apart(self) -> float:
        """The largest difference between the outputs, relative to the largest element; inf if the shapes differ."""
        mine = self.run.output.tensor
        if mine.shape != self.right.shape:
            return torch.inf
        return float((mine - self.right).abs().nan_to_num(nan=torch.inf).max())

    @property
    def is_equal(self) -> bool:
        return self.apart <= ABSOLUTE + RELATIVE * float(self.right.abs().nan_to_num().max())

    def difference(self) -> Difference:
        """Return the first value, among those that make the output wrong, that the reference does not compute.

        A value of the code counts as computed if the reference has one with the same elements in any order, because
        two styles lay out the same numbers differently. Values that differ and lead to the same numbers again, such as
        scores that are masked in another way, are no differences.
        """
        if self.run.output.tensor.shape != self.right.shape:
            return Difference(None, None, torch.inf, torch.inf)
        wrong = self._wrong()
        operation = (self._scaling(wrong) or self._scramble(wrong) or wrong) if wrong else self._scramble_of_output()
        if operation is None:
            return Difference(None, None, self.apart, self.apart)
        nearest, apart = self._nearest(operation)
        return Difference(operation, nearest, apart, self.apart)

    def _wrong(self) -> Operation | None:
        """Return the earliest operation that reaches the output through values that the reference lacks."""
        operations, waiting, seen = self.run.trace.operations, [self.run.output], set()
        while waiting:
            value = waiting.pop()
            if value.made_by is None or value.number in seen or self._is_known(value):
                continue
            seen.add(value.number)
            waiting += operations[value.made_by].inputs
        made = [number for value in seen if (number := self.run.trace.values[value].made_by) is not None]
        return operations[min(made)] if made else None

    def _scaling(self, wrong: Operation) -> Operation | None:
        """Return the operation that scaled what a wrong operation reads, or should have, if that is all."""
        for value in wrong.inputs:
            scaled = value.tensor.is_floating_point() and value.tensor.numel() > 1 and self._is_scaled(value)
            if value.made_by is None or not scaled:
                continue
            ancestors = self.run.in_order(self.run.trace.ancestors([value]))
            scalings = [one for one in ancestors if one.name in SCALINGS and one.where]
            return scalings[-1] if scalings else self.run.trace.operations[value.made_by]
        return None

    def _scramble(self, wrong: Operation) -> Operation | None:
        """Return the first change of layout before a wrong operation that puts elements elsewhere."""
        for value in wrong.inputs:
            found = self._first_scramble(value)
            if found is not None:
                return found
        return None

    def _scramble_of_output(self) -> Operation | None:
        return self._first_scramble(self.run.output)

    def _first_scramble(self, value: Value) -> Operation | None:
        found = None
        while value.made_by is not None and not self._is_aligned(value):
            operation = self.run.trace.operations[value.made_by]
            if operation.name not in LAYOUT or not operation.inputs:
                break
            found, value = operation, operation.inputs[0]
        return found

    def _is_known(self, value: Value) -> bool:
        if not value.tensor.is_floating_point():
            likes = (one.tensor for one in self.trace.values if one.tensor.shape == value.tensor.shape)
            return any(torch.equal(value.tensor, other) for other in likes)
        return any(torch.allclose(_sorted(value), other, RELATIVE, ABSOLUTE) for other in self._like(value))

    def _is_scaled(self, value: Value) -> bool:
        """Return whether the reference has the value up to a positive factor other than 1."""
        if self._is_known(value):
            return False
        mine = _sorted(value) / _sorted(value).abs().max().clamp(min=1e-300)
        likes = (other / other.abs().max().clamp(min=1e-300) for other in self._like(value))
        return any(torch.allclose(mine, other, RELATIVE, ABSOLUTE) for other in likes)

    def _is_aligned(self, value: Value) -> bool:
        """Return whether the reference has the value, or it with its axes in another order."""
        for other in self.trace.values:
            if sorted(other.tensor.shape) != sorted(value.tensor.shape) or value.tensor.dim() > 5:
                continue
            for axes in permutations(range(value.tensor.dim())):
                turned = other.tensor.permute(axes)
                if turned.shape == value.tensor.shape and _equal(turned, value.tensor):
                    return True
        return False

    def _nearest(self, operation: Operation) -> tuple[Value | None, float]:
        mine = operation.outputs[0].tensor.double()
        likes = [one for one in self.trace.values if one.tensor.shape == mine.shape and one.made_by is not None]
        apart = [float((one.tensor.double() - mine).abs().nan_to_num(0.0, torch.inf, torch.inf).max()) for one in likes]
        if not likes:
            return None, torch.inf
        best = min(range(len(likes)), key=apart.__getitem__)
        return likes[best], apart[best]

    def _like(self, value: Value) -> list[Tensor]:
        return self._by_size.get(value.tensor.numel(), [])

    @cached_property
    def _by_size(self) -> dict[int, list[Tensor]]:
        found: dict[int, list[Tensor]] = {}
        for value in self.trace.values:
            if value.tensor.is_floating_point():
                found.setdefault(value.tensor.numel(), []).append(_sorted(value))
        return found


def compare(run: Run) -> Comparison | None:
    """Run the reference on the same x, with the code's parameters if all names and shapes agree; None without one.

    If both take a mask by the same parameter, they are compared without it first, because a mask may hide what the code
    itself lost, then as the code was called, and then with a mask that hides a token: the first that differs counts.

    Raises:
        SubjectFailed: the reference can't be run.
    """
    expect, subject = run.options.expect, run.subject
    if expect is None:
        return None
    names = [] if run.options.num_context else shared_parameters(subject.original, expect)
    if names and subject.given_call is not None:
        plain = _called(run, f"without `{run.options.offered or names[0]}`")
        if plain is not None and not plain.is_equal:
            return plain
    usual = _compare(run, _as_run(subject, Subject(expect, run.options.expect_call or subject.given_call)))
    masked = _masked(run, names) if names and usual.is_equal else None
    return masked or usual


def _masked(run: Run, names: list[str]) -> Comparison | None:
    """Return the comparison with a mask that hides a token; None if the codes then agree, or can't be run so."""
    code, expect = run.subject.original, run.options.expect

    def called(code: Callable[..., Any], name: str, make: Make) -> Subject:
        return _as_run(run.subject, Subject(code, call_with(code, **{name: make})))

    found = None if expect is None else shared_mask(names, partial(called, code), partial(called, expect), run.x)
    masked = None if found is None else _called(run, f"with `{found[0]}`", dict([found]))
    return None if masked is None or masked.is_equal else masked


def _called(run: Run, how: str, extra: dict[str, Make] | None = None) -> Comparison | None:
    """Compare code and reference as they are called with x and some more arguments; None if one can't be run so."""
    code, expect = run.subject.original, run.options.expect
    if expect is None:
        return None
    calls = [call_with(one, **extra) if extra else None for one in (code, expect)]
    try:
        mine, right = (_as_run(run.subject, Subject(*both)) for both in zip((code, expect), calls, strict=True))
        measured = measure_run(mine, run.x, replace(run.options, offered=""))
        return replace(_compare(measured, right), how=how) if isinstance(measured, Run) else None
    except SubjectFailed:
        return None


def _compare(run: Run, reference: Subject) -> Comparison:
    reference.widened, reference.awake = run.subject.widened, run.subject.awake
    reference.code = reference.copy(torch.float64)
    copied, own = reference.code, run.subject.copy(torch.float64)
    unlike, has_own_weights = tuple[str, ...](), False
    if isinstance(copied, nn.Module) and isinstance(own, nn.Module):
        state, other = _learned(own), _learned(copied)
        shapes = [{name: tuple(one.shape) for name, one in each.items()} for each in (state, other)]
        unlike = tuple(name for name in {**state, **other} if shapes[0].get(name) != shapes[1].get(name))
        if unlike:
            has_own_weights = _has_own_weights(state, other)
        else:
            copied.load_state_dict(state, strict=False)
    trace, result = reference.trace(run.x)
    if not isinstance(result, Tensor):
        raise SubjectFailed(f"expect can't be run: {type(result).__name__}: {result}")
    return Comparison(run, trace, result, unlike, has_own_weights=has_own_weights)


def _learned(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and the statistics of norms; other buffers, such as masks, belong to the code."""
    buffers = {name: one for name, one in module.named_buffers() if name.rpartition(".")[2] in STATISTICS}
    return dict(module.named_parameters()) | buffers


def _has_own_weights(state: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    mine, right = ([one.flatten() for one in each.values() if one.dim() > 1] for each in (state, other))
    if not mine or not right:
        return False
    return bool(torch.isin(torch.cat(mine), torch.cat(right)).double().mean() < 0.5)  # a copy may lack a matrix


def differing_from_reference(attempt: Attempt) -> Comparison | None:
    """Return the comparison of code that computes something else than its reference; None if it doesn't, or fails."""
    try:
        comparison = compare(attempt) if isinstance(attempt, Run) else None
    except (SubjectFailed, RuntimeError):
        return None
    return None if comparison is None or comparison.is_equal else comparison


def _as_run(subject: Subject, reference: Subject) -> Subject:
    """Return a reference that takes what the code takes: x, or embeddings if the code is a model of ids."""
    if not isinstance(subject, EmbeddedSubject):
        return reference
    found = embedded(reference, subject.template)
    if not isinstance(found, tuple):
        raise SubjectFailed("expect has no nn.Embedding, or module like it, that the token ids go to, as the model has")
    return found[0]


def _sorted(value: Value) -> Tensor:
    return value.tensor.detach().double().flatten().nan_to_num(nan=0.0, posinf=1e300, neginf=-1e300).sort()[0]


def _equal(one: Tensor, other: Tensor) -> bool:
    one, other = one.double(), other.double()
    return torch.allclose(one, other, RELATIVE, ABSOLUTE, equal_nan=True)
