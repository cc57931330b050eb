"""Run a traced computation again with some tensors changed."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from .graph import Trace, Value
from .tensors import map_instances, tensors_in

Change = Callable[[Tensor], Tensor]


def replay(
    trace: Trace,
    x: Tensor | None = None,
    *,
    before: Mapping[tuple[int, int], Change] | None = None,
    after: Mapping[int, Change] | None = None,
    leaves: Mapping[int, Tensor] | None = None,
) -> list[Tensor]:
    """Run a trace again with some tensors changed, and return each value's tensor as it is computed.

    Only the operations that depend on a change are run.

    Args:
        trace: the run to repeat.
        x: the new input.
        before: (number of an operation, index of one of its arguments) -> how to change that argument, for it alone.
        after: number of an operation -> how to change its first result.
        leaves: number of a value that no operation made -> the tensor to use instead.
    """
    after, leaves = after or {}, dict(leaves or {})
    if x is not None:
        leaves[trace.x.number] = x
    seen = [leaves.get(value.number, value.tensor) for value in trace.values]
    now = list(seen)  # the tensors to run on; those whose memory is written to are copies, because the run changes them
    for number in trace.written_leaves:
        now[number] = seen[number].clone()
    moved = {number for number, tensor in leaves.items() if tensor is not trace.values[number].tensor}
    moved |= trace.written_leaves

    def tensor_now(value: Value) -> Tensor:
        return now[value.number]

    changes_before = _by_operation(before or {})
    changed, never_skipped = changes_before.keys() | after.keys(), trace.never_skipped
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        for operation in trace.operations:
            number, kwargs = operation.number, operation.kwargs
            if (
                moved.isdisjoint(operation.input_indices)
                and number not in changed
                and (number not in never_skipped or kwargs.get("generator") is not None)  # which has moved on since
            ):
                continue  # its results would be the same
            args = [  # most are tensors, and a call for each would take a third of the time
                now[part.number] if isinstance(part, Value) else map_instances(Value, tensor_now, part)
                for part in operation.args
            ]
            for index, change in changes_before.get(number, ()):
                args[index] = change(args[index])
            output = operation.func(*args, **(map_instances(Value, tensor_now, kwargs) if kwargs else {}))
            results = [output] if isinstance(output, Tensor) else list(tensors_in(output))
            if not operation.inputs:  # the run may have had another default dtype
                dtypes = (value.tensor.dtype for value in operation.outputs)
                results = [result.to(dtype) for result, dtype in zip(results, dtypes, strict=True)]
            if number in after and results:
                results[0] = after[number](results[0])
            for value, tensor in zip(operation.outputs, results, strict=True):
                now[value.number] = tensor
                moved.add(value.number)
                seen[value.number] = tensor.clone() if value.storage in trace.writers else tensor
    return seen


def _by_operation(before: Mapping[tuple[int, int], Change]) -> dict[int, list[tuple[int, Change]]]:
    changes: dict[int, list[tuple[int, Change]]] = {}
    for (number, index), change in before.items():
        changes.setdefault(number, []).append((index, change))
    return changes
