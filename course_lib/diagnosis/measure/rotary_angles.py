"""Find where rotary angles come from: computed cosines, stored tables, and the positions that they belong to."""

import re
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from course_lib.tracing import Operation, Value, storage_of

from .precision import STEPS, rounded_to
from .structure import AfterStructure, Structure

TRIGONOMETRY = ("cos", "sin", "polar", "cos_", "sin_")
TABLE = re.compile(r"cos|sin|freq|rot|rope|theta|angle|phase|cis", re.I)
ROTATING = re.compile(r"(^|[._])(cos|sin|cis|rope|rotary)", re.I)  # unambiguous names of tables
ROUNDING = 1e-6  # of cosines that were computed in float32
RANGES = (
    "arange", "zeros", "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RotaryAngles(AfterStructure):
    """The operations of a run that are part of rotary positions."""

    @cached_property
    def tables(self) -> dict[str, int]:
        """The storages of the buffers and attributes that hold cosines, frequencies or angles, by name."""
        return {name: storage_of(tensor) for name, tensor in self._stored.items()}

    @cached_property
    def _stored(self) -> dict[str, Tensor]:
        found = {}
        for prefix, module in self.run.subject.modules.items():
            plain = {name: value for name, value in vars(module).items() if isinstance(value, Tensor)}
            for name, tensor in (dict(module.named_buffers(recurse=False)) | plain).items():
                named = TABLE.search(name) and (tensor.is_floating_point() or tensor.is_complex())
                if named or _is_table_of_turns(tensor):
                    found[f"{prefix}.{name}" if prefix else name] = tensor
        return found

    @property
    def read_as_cosines(self) -> bool:
        """Whether the run reads another stored tensor that holds the cosines and sines of a table's angles.

        A table of frequencies is read as such, because those are the angles at position 1.
        """
        trace, parameters = self.trace, self.run.parameter_storages
        fixed = [v for op in self.run.live_operations for v in op.inputs if v.made_by is None and v is not trace.x]
        read = {value.storage: value.tensor for value in fixed if value.storage not in parameters}
        return any(_holds_cosines(one, table) for one in read.values() for table in self._stored.values())

    @cached_property
    def trigonometry(self) -> list[Operation]:
        """The operations that compute cosines and sines, used or not."""
        return [operation for operation in self.trace.operations if operation.name in TRIGONOMETRY]

    @cached_property
    def of_given_positions(self) -> list[Operation]:
        """The operations, used or not, that rotate by a table which the caller gives."""
        return [one for one in self.trace.operations if any(map(_is_given, one.inputs)) or one.number in self._by_given]

    @cached_property
    def readers(self) -> set[int]:
        """The live operations that compute cosines of positions or read a table of them."""
        stored = self._stored.items()
        tables = {storage_of(one) for name, one in stored if ROTATING.search(name) or _is_table_of_turns(one)}
        return {
            operation.number
            for operation in self.run.live_operations
            if (operation.name in TRIGONOMETRY and not self.dependence.on_input(operation.outputs[0]))
            or any(value.made_by is None and value.storage in tables for value in operation.inputs)
            or any(map(_is_given, operation.inputs))
            or operation.number in self._by_given
        }

    @cached_property
    def _by_given(self) -> set[int]:
        """The products of projected values with cosines or sines that the caller gives."""
        tables = {one.number: self._given_table(one) for one in self.trace.operations}
        # The first token's angle is 0, whose cosine and sine alone could be those of any mask.
        lines = {self.trace.operations[number].where for number, one in tables.items() if _is_between(one)}
        return {number for number, one in tables.items() if one and self.trace.operations[number].where in lines}

    def _given_table(self, operation: Operation) -> Value | None:
        """Return the numbers from -1 to 1, given by the caller, that an operation multiplies a projected value by."""
        if operation.name not in ("mul", "mul_") or len(operation.inputs) != 2:
            return None
        fixed = [value for value in operation.inputs if not self.dependence.on_input(value)]
        if len(fixed) != 1 or not any(map(self.structure.is_projected, operation.inputs)):
            return None
        numbers = fixed[0].tensor
        inside = numbers.is_floating_point() and numbers.dim() > 1 and bool((numbers.abs() <= 1 + 1e-6).all())
        return fixed[0] if inside and are_given(self.structure, fixed) else None

    @cached_property
    def all_readers(self) -> set[int]:
        """The operations, used or not, that read what the readers read."""
        operations = self.run.in_order(self.readers)
        read = {value.storage for one in operations for value in one.inputs if not self.dependence.on_input(value)}
        return {one.number for one in self.trace.operations if any(value.storage in read for value in one.inputs)}

    @cached_property
    def descendants(self) -> set[int]:
        """The operations that an angle flows into."""
        return self.trace.descendants(self.readers) if self.readers else set()

    @property
    def first_rotation(self) -> Operation | None:
        """The first operation that rotates a projected value."""
        return next((one for one in self.run.in_order(self.descendants) if self._is_projected(one)), None)

    def lookup(self, own: set[int]) -> Operation | None:
        """Return the first operation, among its `own` if there is one, that looks up rows of a table."""
        lookups = ("slice", "index", "select", "index_select")
        cut = [one for one in self.run.in_order(self.descendants) if not self.dependence.on_input(one.outputs[0])]
        found = [one for one in (*self.run.in_order(self.readers), *cut) if one.name in lookups]
        later = sorted((one for one in found if one.number in own), key=lambda one: one.number)
        return next(iter(later or found), None)

    def positions_of(self, num_tokens: int, *, after: int = 0) -> Operation | None:
        """Return the first operation, from `after` on, that makes the positions of some tokens for the angles."""
        trace, batch = self.trace, self.run.x.shape[0]
        ancestors = trace.ancestors([value for one in self.run.in_order(self.readers) for value in one.inputs])
        for operation in self.run.in_order(ancestors):
            makes = operation.number >= after and operation.name in RANGES and operation.where
            if makes and operation.outputs[0].tensor.numel() in (num_tokens, batch * num_tokens):
                return operation
        return None

    def unused_rotations(self, start: set[int]) -> list[Operation]:
        """Return the unused operations that rotate a projected value by angles from the operations `start`."""
        unused = self.trace.descendants(start) - self.run.live
        return [one for one in self.run.in_order(unused) if self._is_projected(one)]

    @property
    def stretch(self) -> float:
        """The factor by which the tables lengthen vectors: 1, except in models extended to longer contexts."""
        on_input, largest = self.dependence.on_input, 1.0
        before = self.trace.ancestors(self.structure.score_factors) & self.descendants
        products = [one for one in self.run.in_order(before) if one.name in ("mul", "mul_")]
        for operation in products:
            tables = [v for v in operation.inputs if v.tensor.dim() and not on_input(v)]
            if tables and any(map(self.structure.is_projected, operation.inputs)):
                largest = max(largest, float(tables[0].tensor.abs().max()))
        return largest if largest > 1.02 else 1.0

    def _is_projected(self, operation: Operation) -> bool:
        return bool(operation.outputs) and self.structure.is_projected(operation.outputs[0])


def _is_table_of_turns(tensor: Tensor) -> bool:
    """Return whether a tensor holds a cosine and a sine for each position and frequency, whatever it is called.

    The pairs stand on a last axis of two, or in the halves of the last axis; those of position 0 are 1 and 0.
    """
    if tensor.dim() < 2 or not tensor.is_floating_point() or tensor.shape[-1] % 2 or len(tensor) < 2:
        return False
    cosines, sines = tensor.detach().double().chunk(2, dim=-1)
    on_circle = float((cosines**2 + sines**2 - 1).abs().max()) < ROUNDING if tensor.numel() else False
    at_rest = on_circle and bool((cosines[0] == 1).all() and (sines[0] == 0).all())
    return at_rest and bool((sines[1:] != 0).any())


def _holds_cosines(tensor: Tensor, angles: Tensor) -> bool:
    """Return whether the cosine and the sine of each angle are elements of a tensor; angles of 0 say nothing."""
    if angles.is_complex() or not (tensor.is_complex() or tensor.is_floating_point()):
        return False
    elements = (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).detach().double()
    elements, turns = elements.flatten().sort()[0], angles.detach().double()[angles != 0]
    if not turns.numel() or not elements.numel():
        return False
    wanted = torch.cat([turns.cos(), turns.sin()])
    above = torch.searchsorted(elements, wanted).clamp(max=len(elements) - 1)
    nearest = torch.minimum((elements[above] - wanted).abs(), (elements[(above - 1).clamp(min=0)] - wanted).abs())
    return bool((nearest < _rounding(tensor)).all())


def _rounding(tensor: Tensor) -> float:
    narrow = rounded_to(tensor)
    return ROUNDING if narrow is None else STEPS[narrow]


def _is_between(table: Value | None) -> bool:
    return table is not None and bool(((table.tensor != 0) & (table.tensor.abs() != 1)).any())


def _is_given(value: Value) -> bool:
    return value.made_by is None and value.tensor.is_complex()


def are_given(structure: Structure, values: list[Value]) -> bool:
    """Return whether values that no x changes come from a table of the caller's, and not from the code's own."""
    trace, own = structure.trace, {structure.trace.x.storage}
    for module in structure.run.subject.modules.values():
        tensors = (*module.parameters(recurse=False), *module.buffers(recurse=False), *vars(module).values())
        own |= {storage_of(one) for one in tensors if isinstance(one, Tensor)}
    fixed = [value for value in values if not structure.dependence.on_input(value)]
    leaves = fixed + [value for one in structure.ancestors_of(fixed) for value in one.inputs]
    tables = [one for one in leaves if one.made_by is None and one.tensor.is_floating_point() and one.tensor.dim() > 1]
    return any(one.storage not in own and one is not trace.x for one in tables)


def are_made_by_caller(structure: Structure, values: list[Value]) -> bool:
    """Return whether values that no x changes come from a table that is computed outside the module that attends."""
    trace, products = structure.trace, [one.operation.number for one in structure.score_products]
    around = [call for call in trace.calls if all(call.first <= number < call.last for number in products)]
    fixed = [value for value in values if not structure.dependence.on_input(value)]
    made = [trace.operations[one.made_by] for one in fixed if one.made_by is not None]
    return bool(around) and any(
        not any(call.first <= one.number < call.last for call in trace.calls)
        and any(value.tensor.is_floating_point() and value.tensor.dim() > 1 for value in one.outputs)
        for one in [*made, *structure.ancestors_of(fixed)]
        if one.frames
    )
