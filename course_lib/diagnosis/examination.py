"""Everything that is measured of a patient before anything is concluded."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.recorder.call import storage_of

from .anatomy import Anatomy, NoAnatomy, differs, dissect
from .flow import Flow, follow
from .patient import Patient
from .trace import Operation, Trace, Value

CACHE = re.compile(r"(kv_?|layer_)?(cache|past)s?|past_(kvs?|key_values?)")
MOST_SAMPLES, MOST_TOKENS = 3, 8  # more are cut off: the mistakes are the same


@dataclass(eq=False)
class Examination:
    """What is known of the patient.

    Attributes:
        patient: the code, on copies.
        given: x as it was given.
        x: what was traced, in 64 bits, several samples and tokens where that is possible.
        causal, num_heads, num_kv_heads, keep: as told.
        trace, result: of the run on x; the result is an exception if it failed.
        free: whether sizes may be changed: no keep mask ties them.
        left_out: what could not be checked, and why.
        pipeline: the way from scores to shares, once a rule has asked for it.
        learned: for each value, labels where its numbers are a parameter's, once a rule has asked for them.
        outlasting: whether a run leaves something behind that even a fresh copy of the code starts with.
    """

    patient: Patient
    given: Tensor
    x: Tensor
    causal: bool
    num_heads: int | None
    num_kv_heads: int | None
    keep: Tensor | None
    trace: Trace
    result: Any
    free: bool = True
    why_not: str = field(default="", init=False)
    left_out: list[str] = field(default_factory=list, init=False)
    pipeline: list[Operation] | None = field(default=None, init=False)
    outlasting: bool = field(default=False, init=False)
    learned: list[Tensor] | None = field(default=None, init=False)

    @cached_property
    def anatomy(self) -> Anatomy | None:
        """The parts, or None; `why_not` then says why."""
        if self.trace.output is None:
            self.why_not = "it gave back no tensor"
            return None
        try:
            return dissect(self.trace)
        except NoAnatomy as missing:
            self.why_not = str(missing)
        except Exception as error:  # stranger code may be stranger than was foreseen
            self.why_not = f"its parts could not be told apart ({type(error).__name__}: {error})"
        return None

    @cached_property
    def flow(self) -> Flow | None:
        """The numbers of attention in order, or None without rows."""
        anatomy = self.anatomy
        if anatomy is None or not anatomy.rows or any(row.query < 0 or row.sample < 0 for row in anatomy.rows):
            return None
        return follow(anatomy)

    @cached_property
    def parameters(self) -> dict[str, Tensor]:
        code = self.patient.code
        return dict(code.named_parameters()) if isinstance(code, nn.Module) else {}

    @cached_property
    def leaves(self) -> dict[str, list[Value]]:
        """The parameters that were read, by name."""
        by_storage = {storage_of(tensor): name for name, tensor in self.parameters.items()}
        found: dict[str, list[Value]] = {}
        for value in self.trace.values:
            if value.made_by is None and value.storage in by_storage:
                found.setdefault(by_storage[value.storage], []).append(value)
        return found

    @cached_property
    def dead(self) -> list[str]:
        """The matrices whose numbers don't matter, in order: "k_proj.weight", or "w[3]" for a part of a packed one.

        Biases are left out, since that of the keys never matters.
        """
        if self.trace.output is None:
            return []
        found = []
        for name, tensor in self.parameters.items():
            values = self.leaves.get(name)
            if tensor.dim() < 2:
                continue
            if not values or not self._matters(values, slice(None)):
                found.append(name)
            elif tensor.dim() > 2 and tensor.shape[0] <= 6 and all(v.tensor.shape == tensor.shape for v in values):
                found += [f"{name}[{part}]" for part in range(len(tensor)) if not self._matters(values, part)]
        return found

    def _matters(self, values: list[Value], part: int | slice) -> bool:
        """Whether the output changes with a part of some leaves."""
        leaves = {}
        for value in values:
            changed = value.tensor.clone()
            noise = torch.randn(changed.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
            changed[part] += noise.to(changed.dtype)[part]
            leaves[value.number] = changed
        output = self.trace.output
        return bool(differs(self.trace.replay(leaves=leaves)[output.number], output.tensor).any())

    @cached_property
    def alive(self) -> set[int]:
        """The operations that the output came from."""
        return set() if self.trace.output is None else self.trace.ancestors([self.trace.output])

    @cached_property
    def expected(self) -> Tensor:
        """Who should see whom, (batch, head, query, key), in the rows that were found."""
        batch, num_tokens = self.x.shape[:2]
        heads = self.anatomy.num_heads if self.anatomy is not None and self.anatomy.rows else 1
        expected = expected_keep(self.causal, self.keep, batch, heads, num_tokens)
        return expected if self.flow is None else expected & self.flow.present[..., None]

    @cached_property
    def _moved(self) -> list[Tensor]:
        noise = torch.randn(self.x.shape, generator=torch.Generator().manual_seed(13), dtype=torch.float64)
        return self.trace.replay(self.x + noise.to(self.x.dtype))

    def move_of(self, value: Value) -> Tensor:
        """How far a value moves when all of x does."""
        return (self._moved[value.number] - value.tensor).double()

    def first(self, wanted: Callable[[Operation], bool]) -> Operation | None:
        """The first operation of the trace that fits."""
        return next((operation for operation in self.trace.operations if wanted(operation)), None)


def expected_keep(causal: bool, keep: Tensor | None, batch: int, heads: int, num_tokens: int) -> Tensor:
    seen = torch.ones(num_tokens, num_tokens, dtype=torch.bool)
    seen = (seen.tril() if causal else seen).expand(batch, heads, num_tokens, num_tokens)
    if keep is None:
        return seen
    keep = keep.bool()
    if keep.shape == (batch, num_tokens) and batch != num_tokens:
        keep = keep[:, None, None, :]  # padding of the keys
    elif keep.dim() == 3 and keep.shape[0] not in (1, heads) and keep.shape[0] == batch:
        keep = keep[:, None]
    try:
        return seen & keep
    except RuntimeError:
        raise ValueError(
            f"keep must broadcast to (batch, head, query, key) = {tuple(seen.shape)}, got the shape "
            f"{tuple(keep.shape)}."
        ) from None


def examine(
    patient: Patient,
    x: Tensor,
    *,
    causal: bool,
    num_heads: int | None,
    num_kv_heads: int | None,
    keep: Tensor | None,
) -> Examination:
    """Run the patient on as telling an input as it takes and write everything down.

    Args:
        patient: on copies.
        x: (batch, token, d_in).
        causal, num_heads, num_kv_heads, keep: as `diagnose`.

    Returns:
        Examination, also where the run failed.
    """
    tries = _inputs(x.double(), fixed=keep is not None)
    for number, telling in enumerate(tries):
        if number:  # a try that failed may have left something behind
            patient.code = patient.copy(torch.float64)
        trace, result = patient.trace(telling)
        if not isinstance(result, Exception) or number == len(tries) - 1:
            break
    return Examination(patient, x, telling, causal, num_heads, num_kv_heads, keep, trace, result, keep is None)


def _inputs(x: Tensor, *, fixed: bool) -> list[Tensor]:
    """The given input last; before it one with several samples that differ and a few tokens."""
    noise = torch.randn(
        max(2, len(x)), max(5, x.shape[1]), x.shape[2], generator=torch.Generator().manual_seed(11), dtype=x.dtype
    )
    size = float(x.std()) if x.numel() > 1 and float(x.std()) > 0 else 1.0
    if not 0.2 < size < 3 and not fixed:  # attention that is flat or all on one token shows nothing
        given, x, size = x, x / size, 1.0
    else:
        given = x
    rows = x.reshape(-1, x.shape[-1])
    apart = len(torch.unique(rows, dim=0)) == len(rows)
    telling = x if apart else x + 0.3 * size * noise[: len(x), : x.shape[1]]
    if fixed:
        return [telling, given]
    more = telling[:MOST_SAMPLES, :MOST_TOKENS]
    if len(more) == 1:
        more = torch.cat([more, more.flip(1) + size * noise[:1, : more.shape[1]]])
    if more.shape[1] < 3:
        longer = size * noise[: len(more), : 5 - more.shape[1]]
        return [torch.cat([more, longer], dim=1), more, telling, given]
    return [more, telling, given]


def mask_argument(code: Callable[..., Any]) -> str | None:
    """The name of the argument by which the code takes a mask, or None."""
    return _argument(code, lambda name: ("mask" in name or name == "keep") and "pad" not in name)


def cache_argument(code: Callable[..., Any]) -> str | None:
    """The name of the argument by which the code takes the keys of earlier tokens, or None."""
    return _argument(code, lambda name: CACHE.fullmatch(name) is not None)


def _argument(code: Callable[..., Any], wanted: Callable[[str], bool]) -> str | None:
    function = code.forward if isinstance(code, nn.Module) else code
    try:
        names = list(inspect.signature(function).parameters)[1:]
    except (TypeError, ValueError):
        return None
    return next(filter(wanted, names), None)
