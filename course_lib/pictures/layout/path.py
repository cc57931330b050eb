"""Follow elements through the layout steps of a recording: where each one is after every step, and in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from course_lib.pictures.matching import positions_by_value, positions_of, slots_of
from course_lib.recorder import Recording, Step
from course_lib.tracing import map_instances, storage_of

OPERATORS = {"getitem": "index"}  # operations that the code writes as an operator
EFFECTS = {"view": "no element moves", "copy": "elements copied"}


@dataclass(frozen=True, eq=False)
class LayoutState:
    """A tensor before or after a layout step, with the layout that was recorded."""

    title: str  # its name in the code, or the code that computed it
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    elements: Tensor  # of that shape: the number of each element; -1 for elements without an origin, such as padding
    tensor: Tensor  # the tensor at that moment
    step: Step | None  # the step that computed it; None for an input

    @classmethod
    def of(cls, tensor: Tensor, elements: Tensor, origin: Step | str) -> LayoutState:
        """Return the state of a tensor that a step computed, or of an input with a name."""
        if isinstance(origin, Step):
            layout = origin.shape, origin.stride, origin.offset
            return cls(origin.title, *layout, elements=elements, tensor=tensor, step=origin)
        layout = tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())
        return cls(origin, *layout, elements=elements, tensor=tensor, step=None)

    @property
    def op(self) -> str:
        return OPERATORS.get(self.step.op, self.step.op) if self.step else ""

    @property
    def code(self) -> str:
        return self.step.code or self.step.op if self.step else ""

    @property
    def effect(self) -> str:
        """Describe what the step did."""
        return EFFECTS.get(self.step.effect, "") if self.step else ""

    @property
    def memory(self) -> int:
        """Identify the tensor's storage: states with the same number share it."""
        return storage_of(self.tensor)

    @cached_property
    def slots(self) -> Tensor:
        """The slot of memory in which each element lies, in the shape of the tensor."""
        return slots_of(self.shape, self.stride, self.offset)


@dataclass(frozen=True, eq=False)
class LayoutPath:
    """A chain of layout steps, from computed tensors to the next operation that is not a layout step."""

    sources: tuple[LayoutState, ...]  # several if they are joined
    states: tuple[LayoutState, ...]  # the state after each step
    origin: LayoutPath | None = None  # the path whose numbers this one continues, if any

    @property
    def all_states(self) -> tuple[LayoutState, ...]:
        return self.sources + self.states

    @cached_property
    def whole(self) -> LayoutPath:
        """Return this path, preceded by the path that it continues."""
        if self.origin is None:
            return self
        return LayoutPath(self.origin.sources, (*self.origin.states, *self.all_states))

    @property
    def key(self) -> tuple:
        """A key that is equal for paths that do the same to tensors of the same layout, such as queries and values."""
        return tuple((state.op, state.shape, state.stride, state.effect) for state in self.whole.all_states)


def paths_of(recording: Recording, origins: Sequence[LayoutPath] = ()) -> list[LayoutPath]:
    """Return one path for each layout step whose result enters no other layout step, in the order of these steps.

    A path that begins with elements of an origin, which is a path of an earlier recording, keeps their numbers.
    """
    steps = recording.all_steps
    layout = [step for step in steps if step.is_layout]
    taken: set[int] = set()
    read = [number for step in layout for number in _makers(step)]
    while read:
        number = read.pop()
        taken.add(number)
        read += _makers(steps[number]) if _changes_nothing(steps[number]) else []
    return [_path_to(step, steps, origins) for step in layout if step.number not in taken]


def path_of_tensor(tensor: Tensor) -> LayoutPath:
    """Return a path without a step, for the tensor from which others were computed."""
    elements = torch.arange(tensor.numel()).view(tensor.shape)
    return LayoutPath((LayoutState.of(tensor, elements, f"a tensor of shape {tuple(tensor.shape)}"),), ())


def _path_to(last: Step, steps: tuple[Step, ...], origins: Sequence[LayoutPath]) -> LayoutPath:
    way = [last]
    while len(way[0].inputs) == 1 and (makers := _makers(way[0])):
        maker = steps[makers[0]]
        if not (maker.is_layout or _changes_nothing(maker)):
            break
        way.insert(0, maker)
    while not way[0].is_layout:
        del way[0]
    sources: dict[int, LayoutState] = {}
    first = 0
    for tensor, producer in zip(way[0].call.tensors, way[0].inputs, strict=True):
        if id(tensor) not in sources and _carries(tensor, way[0]):
            elements = torch.arange(first, first + tensor.numel()).view(tensor.shape)
            maker = steps[producer] if isinstance(producer, int) else producer
            sources[id(tensor)] = LayoutState.of(tensor, elements, maker)
            first += tensor.numel()
    origin, known = _continued(sources, origins)
    numbered = tuple(replace(source, elements=known[key]) for key, source in sources.items())
    states: list[LayoutState] = []
    for step in way:
        elements = known[id(step.tensor)] = _run_on_elements(step, known)
        states += [LayoutState.of(step.tensor, elements, step)] if step.is_layout else []
    return LayoutPath(numbered, tuple(states), origin)


def _makers(step: Step) -> list[int]:
    return [number for number in step.inputs if isinstance(number, int)]


def _changes_nothing(step: Step) -> bool:
    """Whether a step returns its input unchanged, such as a reshape to the same shape."""
    return step.effect == "view" and not step.is_layout


def _continued(
    sources: dict[int, LayoutState], origins: Sequence[LayoutPath]
) -> tuple[LayoutPath | None, dict[int, Tensor]]:
    """Return the path that all sources continue and their elements in its numbering, or None and their own numbers."""
    for origin in origins:
        continued = {key: _elements_from(origin.all_states, source) for key, source in sources.items()}
        kept = {key: elements for key, elements in continued.items() if elements is not None}
        if kept.keys() == sources.keys():
            return origin.whole, kept
    return None, {key: source.elements for key, source in sources.items()}


def _elements_from(before: Sequence[LayoutState], source: LayoutState) -> Tensor | None:
    """Find the numbers of a tensor's elements in earlier tensors: by memory and slot, else by their values."""
    for state in before:
        if state.memory == source.memory and state.tensor.dtype == source.tensor.dtype:
            positions = positions_of(source.slots.flatten(), state.slots.flatten())
        else:
            positions = positions_by_value(source.tensor, state.tensor)
        if positions is not None and bool((positions >= 0).all()):
            return state.elements.flatten()[positions].view(source.shape)
    return None


def _carries(tensor: Tensor, step: Step) -> bool:
    """Whether a step's result holds elements of this tensor, unlike the index in `x[index]` and in `gather`."""
    return tensor is step.call.args[0] if step.op in ("getitem", "gather", "index_select", "take") else True


def _run_on_elements(step: Step, known: dict[int, Tensor]) -> Tensor:
    """Run a step on the numbers of the elements instead of the elements; -1 for elements without an origin."""

    def stand_in(tensor: Tensor) -> Tensor:
        return known[id(tensor)] + 1 if id(tensor) in known else tensor.cpu()  # from 1, because new elements are 0

    args, kwargs = map_instances(Tensor, stand_in, (step.call.args, step.call.kwargs))
    with torch.no_grad():
        result = step.call.func(*args, **kwargs)
    return (result if step.part is None else result[step.part[0]]) - 1
