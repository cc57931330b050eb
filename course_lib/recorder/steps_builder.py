"""Turn the noted calls of a run into steps that know their memory and the steps that read their results."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from torch import Tensor, nn

from course_lib.tracing import Layout, layout_of, storage_of, tensors_in

from .call import Call, CallLog
from .effects import NO_STEP, effect_of, is_layout_step
from .reachability import reachable_tensors
from .snapshots import Snapshots
from .step import Step


def build_steps(
    log: CallLog, leaves: dict[int, str], modules: dict[int, str], output: Any, kept: Iterable[Tensor]
) -> tuple[Step, ...]:
    """Build the steps of a run, one per result, in order.

    Args:
        log: the calls that were noted.
        leaves: id of a tensor -> name, for arguments, parameters and buffers.
        modules: id of a module -> name.
        output: what the recorded code returned.
        kept: the tensors that can be reached after the run, besides the output.
    """
    builder = _Builder(leaves, modules, log.snapshots)
    done = 0
    for num_calls, tensor, label in [*log.labels, (len(log.calls), None, "")]:
        for number in range(done, num_calls):
            builder.add(Call(*log.calls[number]), number)
        done = num_calls
        if tensor is not None:
            builder.label(tensor, label)
    for tensor in log.failed:
        builder.fail(tensor)
    builder.finish(reachable_tensors([output]), kept)
    return tuple(builder.steps)


class _Builder:
    def __init__(self, leaves: dict[int, str], modules: dict[int, str], snapshots: Snapshots) -> None:
        self.steps: list[Step] = []
        self._snapshots = snapshots
        self._leaves = leaves
        self._modules = modules
        self._by_tensor: dict[int, Step] = {}  # id of a tensor -> the step that returned it or changed it last
        self._numbers: dict[int, int] = {}  # identity of a storage -> the small integer that stands for it
        self._by_storage: dict[int, Step] = {}  # storage of the run -> the last step that returned a tensor on it
        self._writers: dict[int, list[Step]] = {}  # storage -> the steps that changed it in place
        self._leaf_storages: set[int] = set()
        self._users: dict[int, list[int]] = {}

    def add(self, call: Call, when: int) -> None:
        if call.op in NO_STEP:
            return
        tensors = call.tensors
        inputs = [(id(tensor), self._layout(tensor)) for tensor in tensors]
        number = len(self.steps)
        for tensor, (_, layout) in zip(tensors, inputs, strict=True):
            self._read(tensor, layout.storage, number if call.results else None)
        names = tuple(self._name_of(tensor) for tensor in tensors)
        into = {id(tensor): self._by_tensor.get(id(tensor)) or self._leaves.get(id(tensor)) for tensor in tensors}
        for part, tensor in enumerate(call.results):
            layout = self._numbered(call.layout(part))
            effect = effect_of(call, tensor, layout, inputs)
            step = Step(
                number=number + part,
                op=call.op,
                **layout._asdict(),
                effect=effect,
                is_layout=is_layout_step(call.op, effect, layout, [before for _, before in inputs]),
                inputs=names,
                submodule=self._modules.get(id(call.module), ""),
                part=(part, len(call.results)) if len(call.results) > 1 else None,
                tensor=tensor,
                call=call,
                when=when,
                layouts=tuple(before for _, before in inputs),
                snapshots=self._snapshots,
                into=into.get(id(tensor)) if effect == "in-place" else None,
            )
            self._append(step)

    def _append(self, step: Step) -> None:
        last = self.steps[-1] if self.steps else None
        if last is not None and last.call is not step.call and last.number in step.inputs:
            last.inside |= last.call.code is step.call.code and last.call.instruction == step.call.instruction
        self.steps.append(step)
        self._by_tensor[id(step.tensor)] = step
        if step.storage not in self._leaf_storages:
            self._by_storage[step.storage] = step
        if step.effect == "in-place":
            self._snapshots.check(step.tensor, step.when)
            self._writers.setdefault(step.storage, []).append(step)

    def label(self, tensor: Tensor, label: str) -> None:
        """Label the step that made a tensor; a tensor from outside the run becomes a leaf of that name."""
        if id(tensor) in self._by_tensor:
            self._by_tensor[id(tensor)].label = label
        else:
            self._leaves[id(tensor)] = label

    def fail(self, tensor: Tensor) -> None:
        """Note that a call read a tensor and raised."""
        producer = self._producer_of(tensor)
        if producer is not None:
            producer.read_by_failed = True

    def finish(self, returned: Iterable[Tensor], kept: Iterable[Tensor]) -> None:
        """Mark the steps whose results outlive the run: in its output, in reachable objects, or in outside tensors."""
        output, output_storages = self._ids_and_storages(returned)
        held, held_storages = self._ids_and_storages(kept)
        for step in self.steps:
            in_place = step.effect == "in-place"
            step.users = tuple(dict.fromkeys(self._users.get(step.number, ())))
            step.in_output = id(step.tensor) in output or (in_place and step.storage in output_storages)
            step.read_elsewhere |= id(step.tensor) in held
            step.read_elsewhere |= in_place and step.storage in self._leaf_storages | held_storages

    def _ids_and_storages(self, tensors: Iterable[Tensor]) -> tuple[set[int], set[int]]:
        producers = [producer for producer in map(self._producer_of, tensors) if producer is not None]
        return {id(producer.tensor) for producer in producers}, {producer.storage for producer in producers}

    def _producer_of(self, tensor: Tensor) -> Step | None:
        """Return the step that returned a tensor or, as for a Parameter, the step that wrote its memory."""
        return self._by_tensor.get(id(tensor)) or self._by_storage.get(self._numbers.get(storage_of(tensor), -1))

    def _layout(self, tensor: Tensor) -> Layout:
        producer = self._by_tensor.get(id(tensor))
        if producer is not None:
            return Layout(producer.shape, producer.stride, producer.offset, producer.storage, producer.dtype)
        layout = self._numbered(layout_of(tensor))
        if layout.storage not in self._by_storage:
            self._leaf_storages.add(layout.storage)
        return layout

    def _read(self, tensor: Tensor, storage: int, reader: int | None) -> None:
        for step in dict.fromkeys((self._producer_of(tensor), *self._writers.get(storage, ()))):
            if step is None:
                continue
            if reader is None:
                step.read_elsewhere = True
            else:
                self._users.setdefault(step.number, []).append(reader)

    def _name_of(self, tensor: Tensor) -> int | str:
        step = self._producer_of(tensor)
        return self._leaves.get(id(tensor), "tensor from outside") if step is None else step.number

    def _numbered(self, layout: Layout) -> Layout:
        """Return a layout with the small integer that stands for its storage."""
        return layout._replace(storage=self._numbers.setdefault(layout.storage, len(self._numbers)))


def argument_names(function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> dict[int, str]:
    """Return the name of each tensor argument of the recorded code, as in its signature."""
    called = function.forward if isinstance(function, nn.Module) else function
    try:
        arguments = inspect.signature(called).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # a built-in function has no signature
        arguments = {f"argument {i}": value for i, value in enumerate(args)} | kwargs
    names: dict[int, str] = {}
    for name, value in arguments.items():
        for i, tensor in enumerate(tensors_in(value)):
            names.setdefault(id(tensor), name if isinstance(value, Tensor) else f"{name}[{i}]")
    return names
