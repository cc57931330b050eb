"""The first stage runs the code once, on inputs that show most, and traces every operation."""

from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from course_lib.tracing import Operation, Trace, Value, replay, storage_of

from .options import Options
from .subject import Subject, SubjectFailed
from .talking_heads import find_talking_heads
from .waking import zero_weights
from .widening import rounding_to_float32

TOLERANCE = 1e-9  # of changes, relative to 1 + the size of the element
SHAPES_DEPEND = "its shapes depend on the values of the input"
MAX_SAMPLES, MAX_TOKENS = 3, 8  # further ones are cut off because they show the same mistakes, except of a window
ORDINARY = (0.2, 3)  # standard deviations; outside, attention is flat or all on one token, and shows nothing


@dataclass(frozen=True, eq=False)
class Attempt:
    """One run of the code, however it ended.

    Attributes:
        subject: the code, on copies.
        options: the caller's.
        given: x as the caller passed it.
        x: the input of the run: float64, if possible with several samples and tokens.
        trace: of the run, up to its end or error.
    """

    subject: Subject
    options: Options
    given: Tensor
    x: Tensor
    trace: Trace


@dataclass(frozen=True, eq=False)
class FailedRun(Attempt):
    """A run that raised."""

    error: Exception


@dataclass(frozen=True, eq=False)
class UntraceableRun(Attempt):
    """Code that runs, but raises while its operations are traced."""

    error: Exception


@dataclass(frozen=True, eq=False)
class RunWithoutTensor(Attempt):
    """A run that returned something other than a tensor."""

    result: Any


@dataclass(frozen=True, eq=False)
class Run(Attempt):
    """A run that returned a tensor."""

    output: Value

    @property
    def is_pooled(self) -> bool:
        """Whether the output is one row for each sample, as of attention pooling, and not the tokens side by side."""
        output = self.output.tensor
        if output.dim() != 2 or len(output) != len(self.x):
            return False
        laid = () if self.output.made_by is None else self.trace.operations[self.output.made_by].inputs[:1]
        sizes = [(value.tensor.numel(), *value.tensor.shape[:2]) for value in laid]
        return sizes != [(output.numel(), *self.x.shape[:2])]

    @cached_property
    def live(self) -> set[int]:
        """The operations that the output comes from."""
        return self.trace.ancestors([self.output])

    @cached_property
    def live_operations(self) -> list[Operation]:
        return self.in_order(self.live)

    def storages_read(self, indices: set[int]) -> set[int]:
        """Return the memory that the operations at some indices read."""
        return {value.storage for operation in self.in_order(indices) for value in operation.inputs}

    def in_order(self, indices: set[int]) -> list[Operation]:
        """Return the operations at some indices, in order."""
        return [self.trace.operations[index] for index in sorted(indices)]

    @cached_property
    def parameter_reads(self) -> dict[str, list[Value]]:
        """The values read from parameters, by the parameter's name."""
        names = {storage_of(tensor): name for name, tensor in self.subject.parameters.items()}
        found: dict[str, list[Value]] = {}
        for value in self.trace.values:
            if value.made_by is None and value.storage in names:
                found.setdefault(names[value.storage], []).append(value)
        return found

    @cached_property
    def parameter_names(self) -> dict[int, str]:
        """The names of the parameters that are read, by their memory."""
        return {value.storage: name for name, values in self.parameter_reads.items() for value in values}

    @property
    def parameter_storages(self) -> Set[int]:
        """The memory of the parameters that are read."""
        return self.parameter_names.keys()

    def readers_of(self, *names: str) -> list[Operation]:
        """Return the operations that read the memory of some parameters, in order."""
        memory = {value.storage for name in names for value in self.parameter_reads.get(name, [])}
        return [one for one in self.trace.operations if any(value.storage in memory for value in one.inputs)]

    @property
    def unused_parameters(self) -> list[str]:
        """The idle parameters, without those of products that are left out."""
        return [name for name in self.idle_parameters if name not in self.subject.combining]

    @cached_property
    def idle_parameters(self) -> list[str]:
        """The matrices that do not affect the output, in order: "k_proj.weight", or "w[3]" for part of a packed matrix.

        A matrix that affects another tensor of tokens that the module returns, which `call` leaves out, is not idle,
        and neither is one that this part of some code does not need, but another part does.
        Biases are left out because that of the keys never has an effect.
        """
        found = []
        for name, tensor in self.subject.parameters.items():
            values = self.parameter_reads.get(name, [])
            if tensor.dim() < 2:
                continue
            if not values or not self.matters(values, slice(None)):
                found += [] if name in self.subject.used_parameters else [name]
            elif tensor.dim() > 2 and tensor.shape[0] <= 6 and all(v.tensor.shape == tensor.shape for v in values):
                found += [f"{name}[{part}]" for part in range(len(tensor)) if not self.matters(values, part)]
        return found

    def matters(self, values: list[Value], part: int | slice) -> bool:
        """Return whether the output, or one beside it, changes with a part of some parameters."""
        leaves = {}
        for value in values:
            noise = noise_of(value.tensor.shape, seed=5)
            leaves[value.number] = value.tensor.clone()
            leaves[value.number][part] += noise.to(value.tensor.dtype)[part]
        now = replay(self.trace, leaves=leaves)
        outputs = (self.output, *self._outputs_beside)
        return any(bool(changed(now[value.number], value.tensor).any()) for value in outputs)

    @cached_property
    def _outputs_beside(self) -> list[Value]:
        """What the module returns besides the output: tokens, or features of pairs of them; no weights of heads."""
        returned = (value for call in self.trace.calls if call.outer is None for value in call.outputs)
        made = [value for value in returned if value.made_by is not None and value is not self.output]
        axes, num_tokens = self.output.tensor.dim(), self.x.shape[1]
        pairs = (num_tokens, num_tokens)
        return [one for one in made if one.tensor.dim() == axes or one.tensor.shape[1:-1] == pairs]

    @cached_property
    def returned(self) -> set[int]:
        """The operations that the output, or one beside it, comes from."""
        return self.live | self.trace.ancestors(self._outputs_beside)

    @cached_property
    def with_equal_tokens(self) -> list[Tensor]:
        """Each value's tensor in a run in which every token is the first token."""
        return replay(self.trace, self.x[:, :1].expand_as(self.x).contiguous())

    def response_of(self, value: Value) -> Tensor:
        """Return how much each element of a value changes when all of x does."""
        return (self._with_noise[value.number] - value.tensor).double()

    @property
    def is_followed(self) -> bool:
        """Whether the trace computes what the code does for another x, too; not if numbers pass through NumPy."""
        try:
            same, now = self.subject.run(self.x), self.subject.run(self._noisy)
            replayed = self._with_noise[self.output.number]
        except Exception:  # it takes no other x, or its steps depend on x, so that they can't be run again
            return True
        if changed(same, self.output.tensor).any():  # the code is random
            return True
        return now.shape == replayed.shape and not changed(now, replayed).any()

    @cached_property
    def _with_noise(self) -> list[Tensor]:
        return replay(self.trace, self._noisy)

    @cached_property
    def _noisy(self) -> Tensor:
        return self.x + noise_of(self.x.shape, seed=13).to(self.x.dtype)


def measure_run(subject: Subject, x: Tensor, options: Options) -> Attempt:
    """Run the code on the most informative input that it takes, and trace the run; x is (batch, token, d_in)."""
    inputs = _informative_inputs(x.double(), fixed=options.fixed_tokens, fewest=options.fewest_tokens)
    tried, *further = inputs
    trace, result = subject.trace(tried, modules=True)
    while isinstance(result, Exception) and further:
        subject.code = subject.copy(torch.float64)  # the failed run may have changed the state
        tried = further.pop(0)
        trace, result = subject.trace(tried, modules=True)
    wide = None if subject.widened else _measure_widened(subject, x, options, trace, result)
    if wide is not None:
        return wide
    if isinstance(result, Exception):
        for one in inputs:
            with suppress(SubjectFailed):
                subject.run(one)
                return UntraceableRun(subject, options, x, one, trace, result)
        return FailedRun(subject, options, x, tried, trace, result)
    if trace.output is None:
        return RunWithoutTensor(subject, options, x, tried, trace, result)
    run = Run(subject, options, x, tried, trace, trace.output)
    run = _measure_awake(run) or run
    return _measure_heads_apart(run) or run


def _measure_awake(run: Run) -> Run | None:
    """Measure with random weights in place of zeros if no token's output moves with another; None if that stays."""
    subject = run.subject
    if subject.awake or not zero_weights(subject.examined) or _combines_tokens(run):
        return None
    subject.awake = True
    subject.code = subject.copy(torch.float64)
    again = measure_run(subject, run.given, run.options)
    if isinstance(again, Run) and _combines_tokens(again):
        return again
    subject.awake, subject.code = False, subject.copy(torch.float64)
    return None


def _measure_heads_apart(run: Run) -> Run | None:
    """Measure without the products that combine heads; None if there are none, or if it does not run so."""
    subject = run.subject
    if subject.talking_heads or not (found := find_talking_heads(run.trace)):
        return None
    unused = run.unused_parameters
    subject.talking_heads = found
    subject.code = subject.copy(torch.float64)
    again = measure_run(subject, run.given, run.options)
    if isinstance(again, Run):
        subject.combining = frozenset(again.idle_parameters).difference(unused)
        return again
    subject.talking_heads, subject.code = {}, subject.copy(torch.float64)
    return None


def _combines_tokens(run: Run) -> bool:
    """Return whether the output of the first token, or of the last, moves when all others change."""
    if run.output.tensor.shape[:2] != run.x.shape[:2]:
        return True
    noise = noise_of(run.x.shape, seed=19).to(run.x.dtype)
    for token in (0, -1):
        moved = run.x + noise
        moved[:, token] = run.x[:, token]
        now = replay(run.trace, moved)[run.output.number]
        if now.shape != run.output.tensor.shape or changed(now, run.output.tensor)[:, token].any():
            return True
    return False


def _measure_widened(subject: Subject, x: Tensor, options: Options, trace: Trace, result: Any) -> Attempt | None:
    """Measure with float64 in place of float32 if code fails in float64 only, or rounds tokens; None if that fails."""
    failed = isinstance(result, Exception)
    rounding = [] if failed else rounding_to_float32(trace)
    subject.rounded_at = [operation.where for operation in rounding if operation.where]
    if not rounding and not (failed and subject.runs_in(subject.dtype(x), x)):
        return None
    subject.widened, subject.code = True, subject.copy(torch.float64)
    attempt = measure_run(subject, x, options)
    if isinstance(attempt, Run):
        return attempt
    subject.widened, subject.code = False, subject.copy(torch.float64)
    return None


def _informative_inputs(x: Tensor, *, fixed: bool, fewest: int) -> list[Tensor]:
    """Return inputs to try in turn, the most informative first and x last; with `fixed`, of the sizes of x only.

    The first has at least the `fewest` tokens.
    """
    noise = noise_of((max(2, len(x)), max(5, x.shape[1], fewest), x.shape[2]), seed=11)
    size = float(x.std()) if x.numel() > 1 and float(x.std()) > 0 else 1.0
    scaled = x
    if not ORDINARY[0] < size < ORDINARY[1] and not fixed:
        scaled, size = x / size, 1.0
    rows = scaled.reshape(-1, x.shape[-1])
    if len(torch.unique(rows, dim=0)) < len(rows):
        scaled = scaled + 0.3 * size * noise[: len(x), : x.shape[1]]
    if fixed:
        return [scaled, x]
    few = scaled[:MAX_SAMPLES, : max(MAX_TOKENS, fewest)]
    if len(few) == 1:
        few = torch.cat([few, few.flip(1) + size * noise[:1, : few.shape[1]]])
    wanted = max(fewest, 5 if few.shape[1] < 3 else 0)
    if few.shape[1] < wanted:
        longer = size * noise[: len(few), : wanted - few.shape[1]]
        return [torch.cat([few, longer], dim=1), few, scaled, x]
    return [few, scaled, x]


def noise_of(shape: Sequence[int], *, seed: int) -> Tensor:
    """Return random elements that are the same in every diagnosis."""
    return torch.randn(tuple(shape), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class NotFound(Exception):
    """A part of attention could not be found in a run; the message names it."""


def changed(now: Tensor, before: Tensor) -> Tensor:
    """Return which elements of two tensors differ by more than rounding errors.

    Raises:
        NotFound: the shapes differ.
    """
    if now.shape != before.shape:
        raise NotFound(SHAPES_DEPEND)
    if not now.is_floating_point():
        return now != before
    return ~torch.isclose(now, before.to(now.dtype), rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def changed_elements(now: list[Tensor], before: list[Tensor]) -> list[Tensor]:
    """Return what `changed` does, for several pairs of tensors of one dtype on one device.

    Raises:
        NotFound: the shapes of a pair differ.
    """
    if [one.shape for one in now] != [one.shape for one in before]:
        raise NotFound(SHAPES_DEPEND)
    together = changed(torch.cat([one.flatten() for one in now]), torch.cat([one.flatten() for one in before]))
    return [part.view(one.shape) for part, one in zip(together.split([one.numel() for one in now]), now, strict=True)]
