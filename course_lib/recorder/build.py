"""Turns the noted calls of a run into steps: who made what, on which memory, and who read it later."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from .call import Call, Layout, Run, layout_of, storage_of, tensors_in
from .effects import NO_STEP, effect_of, is_layout_step
from .reach import tensors_within
from .step import Step


def steps_of(
    run: Run, leaves: dict[int, str], modules: dict[int, str], output: Any, kept: Iterable[Tensor]
) -> tuple[Step, ...]:
    """Build the steps of a run.

    Args:
        run: what was noted.
        leaves: identity of a tensor -> name, for arguments, parameters and buffers.
        modules: identity of a module -> name.
        output: what the recorded code gave back.
        kept: the tensors that somebody can reach after the run, beside the output.

    Returns:
        One step a result, in order.
    """
    builder = _Builder(leaves, modules)
    labels = iter([*run.labels, (len(run.calls) + 1, None, "")])
    before, labelled, label = next(labels)
    for index, call in enumerate(run.calls):
        while before <= index:
            builder.name(labelled, label)
            before, labelled, label = next(labels)
        builder.add(Call(*call))
    while labelled is not None:
        builder.name(labelled, label)
        before, labelled, label = next(labels)
    builder.finish(tensors_within([output]), kept)
    return tuple(builder.steps)


class _Builder:
    def __init__(self, leaves: dict[int, str], modules: dict[int, str]) -> None:
        self.steps: list[Step] = []
        self._leaves = leaves
        self._modules = modules
        self._maker: dict[int, Step] = {}  # identity of a tensor -> the step that gave it or changed it last
        self._made: dict[int, Step] = {}  # storage that the run made -> the last step that gave a tensor on it
        self._writers: dict[int, list[Step]] = {}  # storage -> the steps that changed it in place
        self._numbers: dict[int, int] = {}  # storage -> the small number it is shown by
        self._leaf_storages: set[int] = set()
        self._users: dict[int, list[int]] = {}

    def add(self, call: Call) -> None:
        """Add the steps of one call."""
        if call.op in NO_STEP:
            return
        tensors = list({id(tensor): tensor for tensor in tensors_in((call.args, call.kwargs))}.values())
        inputs = [(id(tensor), self._layout(tensor)) for tensor in tensors]
        number = len(self.steps)
        for tensor, (_, layout) in zip(tensors, inputs, strict=True):
            self._read(tensor, layout, number if call.results else None)
        names = tuple(self._name_of(tensor) for tensor in tensors)
        for part, tensor in enumerate(call.results):
            layout = call.layout(part)
            effect = effect_of(call, part, inputs)
            step = Step(
                number=number + part,
                op=call.op,
                shape=layout.shape,
                stride=layout.stride,
                offset=layout.offset,
                storage=self._number(layout.storage),
                dtype=layout.dtype,
                effect=effect,
                is_layout=is_layout_step(call.op, effect, layout, [before for _, before in inputs]),
                inputs=names,
                submodule=self._modules.get(id(call.module), ""),
                part=(part, len(call.results)) if len(call.results) > 1 else None,
                tensor=tensor,
                call=call,
            )
            last = self.steps[-1] if self.steps else None
            same_line = last is not None and last.call.code is call.code and last.call.instruction == call.instruction
            if same_line and last.call is not call and last.number in names:
                last.inside = True
            self.steps.append(step)
            self._maker[id(tensor)] = step
            if layout.storage not in self._leaf_storages:
                self._made[layout.storage] = step
            if effect == "in-place":
                self._writers.setdefault(layout.storage, []).append(step)

    def name(self, tensor: Tensor, label: str) -> None:
        """Give the step that made a tensor its label; a tensor from outside is a leaf of that name."""
        if id(tensor) in self._maker:
            self._maker[id(tensor)].label = label
        else:
            self._leaves[id(tensor)] = label

    def finish(self, given_back: Iterable[Tensor], kept: Iterable[Tensor]) -> None:
        """Say what the run left: its output, what somebody holds, and tensors from outside that were changed."""
        output, output_storages = self._made_of(given_back)
        held, held_storages = self._made_of(kept)
        for step in self.steps:
            in_place = step.effect == "in-place"
            storage = _layout_of_step(step).storage
            step.users = tuple(dict.fromkeys(self._users.get(step.number, ())))
            step.in_output = id(step.tensor) in output or (in_place and storage in output_storages)
            step.read_elsewhere |= id(step.tensor) in held
            step.read_elsewhere |= in_place and storage in self._leaf_storages | held_storages

    def _made_of(self, tensors: Iterable[Tensor]) -> tuple[set[int], set[int]]:
        """Identities and storages of those of the tensors that a step made."""
        makers = [maker for maker in map(self._maker_of, tensors) if maker is not None]
        return {id(maker.tensor) for maker in makers}, {_layout_of_step(maker).storage for maker in makers}

    def _maker_of(self, tensor: Tensor) -> Step | None:
        """The step that made a tensor; of one that came about unseen, as a Parameter does, the maker of its memory."""
        return self._maker.get(id(tensor)) or self._made.get(storage_of(tensor))

    def _layout(self, tensor: Tensor) -> Layout:
        if id(tensor) in self._maker:
            return _layout_of_step(self._maker[id(tensor)])
        layout = layout_of(tensor)
        if layout.storage not in self._made:
            self._leaf_storages.add(layout.storage)
        return layout

    def _read(self, tensor: Tensor, layout: Layout, reader: int | None) -> None:
        self._number(layout.storage)
        maker = self._maker_of(tensor)
        makers = [] if maker is None else [maker]
        for step in dict.fromkeys((*makers, *self._writers.get(layout.storage, ()))):
            if reader is None:
                step.read_elsewhere = True
            else:
                self._users.setdefault(step.number, []).append(reader)

    def _name_of(self, tensor: Tensor) -> int | str:
        step = self._maker_of(tensor)
        return self._leaves.get(id(tensor), "tensor from outside") if step is None else step.number

    def _number(self, storage: int) -> int:
        return self._numbers.setdefault(storage, len(self._numbers))


def _layout_of_step(step: Step) -> Layout:
    return step.call.layout(step.part[0] if step.part else 0)


def argument_names(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> dict[int, str]:
    """Name the tensors that the recorded code was called with as its signature does."""
    called = function.forward if isinstance(function, nn.Module) else function
    try:
        given = inspect.signature(called).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a built-in function has no signature
        given = {f"argument {i}": value for i, value in enumerate(args)} | kwargs
    names: dict[int, str] = {}
    for name, value in given.items():
        for i, tensor in enumerate(tensors_in(value)):
            names.setdefault(id(tensor), name if isinstance(value, Tensor) else f"{name}[{i}]")
    return names
