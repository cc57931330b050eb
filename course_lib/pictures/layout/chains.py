"""Follows numbers through the layout steps of a recording: where each one stands after every step, and in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from course_lib.recorder import Recording, Step
from course_lib.recorder.call import storage_of, tensors_in

SHOWN = {"getitem": "index"}  # what the code calls by a sign instead of a name
EFFECTS = {"view": "no number moves", "copy": "numbers copied"}


@dataclass(frozen=True)
class Stage:
    """A tensor on its way through a chain.

    Attributes:
        title: its name in the code, or the piece of code that made it.
        op, code, effect: of the step that made it; the effect is in words.
        shape, stride: as recorded.
        numbers: (the tensor's shape) which number of the chain's sources each element is, counted in reading order
            from 0; -1 for an element that came from nowhere, such as padding.
        slots: (the tensor's shape) at which place of its memory each element lies.
        memory: which memory that is; stages with the same one share it.
        step: the recorded step; None where the tensor came in from outside.
    """

    title: str
    op: str
    code: str
    effect: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    numbers: Tensor
    slots: Tensor
    memory: int
    step: Step | None


@dataclass(frozen=True)
class Chain:
    """Layout steps that follow each other, from tensors that were computed to what is done with them next.

    Attributes:
        sources: the tensors that it begins with; several where they are joined.
        stages: the tensors after each step.
    """

    sources: tuple[Stage, ...]
    stages: tuple[Stage, ...]

    @property
    def key(self) -> tuple:
        """Equal for chains that do the same to tensors laid out alike, such as queries and values."""
        return tuple((stage.op, stage.shape, stage.stride, stage.effect) for stage in (*self.sources, *self.stages))


def chains_of(recording: Recording) -> list[Chain]:
    """Find the chains of a recording, in the order of their last steps.

    Args:
        recording: of any run.

    Returns:
        One chain for each layout step whose result no other layout step takes up.
    """
    layout = [step for step in recording.all_steps if step.is_layout]
    taken = {number for step in layout for number in step.inputs if isinstance(number, int)}
    return [_chain_to(step, recording.all_steps) for step in layout if step.number not in taken]


def _chain_to(last: Step, steps: tuple[Step, ...]) -> Chain:
    way = [last]
    while True:
        makers = [number for number in way[0].inputs if isinstance(number, int)]
        if len(way[0].inputs) != 1 or not makers or not steps[makers[0]].is_layout:
            break
        way.insert(0, steps[makers[0]])
    numbered: dict[int, Tensor] = {}  # identity of a tensor -> its numbers, counted from 1: 0 is what came from nowhere
    sources = []
    first = 1
    for tensor, made_by in _inputs_of(way[0]):
        if id(tensor) in numbered or not _carries(tensor, way[0]):
            continue
        numbers = torch.arange(first, first + tensor.numel()).view(tensor.shape)
        first += tensor.numel()
        numbered[id(tensor)] = numbers
        sources.append(_source(tensor, numbers - 1, steps[made_by] if isinstance(made_by, int) else made_by))
    stages = []
    for step in way:
        numbers = _run_on_numbers(step, numbered)
        numbered[id(step.tensor)] = numbers
        stages.append(
            Stage(
                title=step.title,
                op=SHOWN.get(step.op, step.op),
                code=step.code or step.op,
                effect=EFFECTS[step.effect],
                shape=step.shape,
                stride=step.stride,
                numbers=numbers - 1,
                slots=_slots(step.shape, step.stride, step.offset),
                memory=storage_of(step.tensor),
                step=step,
            )
        )
    return Chain(tuple(sources), tuple(stages))


def _inputs_of(step: Step) -> Iterator[tuple[Tensor, int | str]]:
    tensors = {id(tensor): tensor for tensor in tensors_in((step.call.args, step.call.kwargs))}.values()
    yield from zip(tensors, step.inputs, strict=True)


def _carries(tensor: Tensor, step: Step) -> bool:
    """Whether a step's result holds numbers of this tensor; the index in `x[index]` and in `gather` only points."""
    return tensor is step.call.args[0] if step.op in ("getitem", "gather", "index_select", "take") else True


def _source(tensor: Tensor, numbers: Tensor, made_by: Step | str) -> Stage:
    memory = storage_of(tensor)
    if isinstance(made_by, Step):
        slots = _slots(made_by.shape, made_by.stride, made_by.offset)
        shape, stride, title = made_by.shape, made_by.stride, made_by.title
        return Stage(title, made_by.op, made_by.code, "", shape, stride, numbers, slots, memory, made_by)
    slots = _slots(tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
    return Stage(made_by, "", "", "", tuple(tensor.shape), tensor.stride(), numbers, slots, memory, None)


def _run_on_numbers(step: Step, numbered: dict[int, Tensor]) -> Tensor:
    """Run a step once more, on the numbers of the elements in place of the elements."""

    def stand_in(tensor: Tensor) -> Tensor:
        return numbered[id(tensor)] if id(tensor) in numbered else tensor.cpu()

    args, kwargs = tree_map_only(Tensor, stand_in, (step.call.args, step.call.kwargs))
    with torch.no_grad():
        result = step.call.func(*args, **kwargs)
    return result if step.part is None else result[step.part[0]]


def _slots(shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Tensor:
    slots = torch.full(shape, offset)
    for axis, (size, step) in enumerate(zip(shape, stride, strict=True)):
        along = torch.arange(size) * step
        slots = slots + along.view([-1 if other == axis else 1 for other in range(len(shape))])
    return slots
