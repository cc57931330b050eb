"""What a page tells: the tensors of a recorded run in order, and where the numbers of each step came from."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from course_lib.recorder import Recording, Step
from course_lib.tracing import SourceLine, layout_of, storage_of

from .axes import name_operands, names_of_input, names_of_result
from .encoding import encode
from .input_names import names_of_inputs
from .masks import note_what_hides
from .memory import Table
from .ordering import decides_order
from .owners import note_owners
from .reading import Reading
from .shown_tensor import ShownTensor, most_cells

MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class Stage:
    """One step of a page.

    Attributes:
        step: of the recording.
        result: what it made.
        inputs: the tensors that it was given, in order.
        names: of the inputs, as the step's line has them, in backticks.
        reads: the tensors that held their numbers then: also what a step wrote into their memory through another view.
        sources: for each of `reads` [different texts, place per cell], [] if each cell came from the one in the same
            place, or "all" if the operation may have read all of it.
        ordering: the indices in `reads` of those that decide on the order in which the result lists what it holds.
    """

    step: Step
    result: ShownTensor
    inputs: Sequence[ShownTensor]
    names: Sequence[str]
    reads: Sequence[ShownTensor]
    sources: Sequence[list | str]
    ordering: Sequence[int]


@dataclass(frozen=True, eq=False)
class Story:
    """The tensors from before the run, the steps, how many were left out, and the error that ended the run."""

    leaves: Sequence[ShownTensor]
    stages: Sequence[Stage]
    left_out: int
    error: str | None
    error_line: SourceLine | None


def story_of(recording: Recording) -> Story:
    """Read a recording: its tensors, the names of their axes, and the sources of their numbers."""
    steps = recording.all_steps[:MOST_STEPS]
    most = most_cells(len(steps))
    shown: dict[int, ShownTensor] = {}  # id of a tensor -> its latest version
    leaves = _Leaves(recording, most)
    stages: list[Stage] = []
    reading, writers = Reading(), _writers(steps)
    for step in steps:
        for tensor, value, name in zip(step.call.tensors, step.as_it_ran.call.tensors, step.inputs, strict=True):
            if id(tensor) not in shown:
                shown[id(tensor)] = leaves.add(tensor, value, name, step.op)
        # Several results of one call read the same versions.
        inputs = stages[-1].inputs if step.part and step.part[0] else [shown[key] for key in map(id, step.call.tensors)]
        result = _result(step, inputs, most)
        for tensor in (*inputs, result):
            tensor.writers = writers.get(storage_of(tensor.tensor), ())
            tensor.overwritten = max((number for number in tensor.writers if number > tensor.step_number), default=None)
        read = reading.add(step, result, inputs)
        names = names_of_inputs(step, inputs, steps)
        sources = [_encoded(*pair) for pair in read]
        ordering = [i for i, (source, _) in enumerate(read) if decides_order(step, source)]
        stages.append(Stage(step, result, inputs, names, [source for source, _ in read], sources, ordering))
        shown[id(step.tensor)] = result
    for stage in reversed(stages):
        name_operands(stage.step, stage.result, stage.inputs)
    note_what_hides([(stage.step, stage.result, stage.inputs) for stage in stages])
    note_owners([*leaves.in_order(), *(stage.result for stage in stages)])
    left_out = len(recording.all_steps) - len(steps)
    return Story(leaves.in_order(), stages, left_out, recording.error, recording.error_line)


class _Leaves:
    def __init__(self, recording: Recording, most: int) -> None:
        self._tensors: list[ShownTensor] = []
        self._arguments = {id(tensor) for tensor in recording.arguments}
        self._memories: dict[int, int] = {}
        self._most = most

    def add(self, tensor: Tensor, value: Tensor, name: int | str, op: str) -> ShownTensor:
        """Add the tensor with the values that it had when an operation first read it."""
        layout = layout_of(tensor)
        title = name if isinstance(name, str) else f"memory of step {name}"
        is_argument = id(tensor) in self._arguments
        axes = names_of_input(layout.shape, op) if is_argument else _axes_of_parameter(title, layout.shape, op)
        storage = -1 - self._memories.setdefault(layout.storage, len(self._memories))
        shown = ShownTensor(
            f"in{len(self._tensors)}", title, layout.shape, layout.stride, layout.offset, storage, layout.dtype,
            tensor, value, axes, self._most,
        )  # fmt: skip
        self._tensors.append(shown)
        return shown

    def in_order(self) -> list[ShownTensor]:
        """Return the arguments of the run, then the other tensors."""
        return sorted(self._tensors, key=lambda tensor: id(tensor.tensor) not in self._arguments)


def _axes_of_parameter(name: str, shape: Sequence[int], op: str) -> tuple[str, ...]:
    """Name the axes of a tensor by its own name and by the operation that reads it first."""
    if op == "embedding" and len(shape) == 2:
        return ("vocabulary", "feature")
    if name.endswith("weight") and len(shape) == 2:
        return ("output feature", "feature")
    return ("",) * len(shape)


def _result(step: Step, inputs: Sequence[ShownTensor], most: int) -> ShownTensor:
    axes = names_of_result(step, [(source.shape, source.axes) for source in inputs])
    return ShownTensor(
        str(step.number), step.title, step.shape, step.stride, step.offset, step.storage, step.dtype, step.tensor,
        step.value, axes, most,
    )  # fmt: skip


def _encoded(tensor: ShownTensor, table: Table) -> list | str:
    if table is None:
        return "all"
    visible = table[:, tensor.cells]
    hidden = (table.sum(1) - visible.sum(1)).tolist()
    return encode((row.nonzero().flatten().tolist(), more) for row, more in zip(visible, hidden, strict=True))


def _writers(steps: Sequence[Step]) -> dict[int, tuple[int, ...]]:
    writers: dict[int, tuple[int, ...]] = {}
    for step in steps:
        storage = storage_of(step.tensor)
        if step.effect == "in-place" and storage in step.snapshots.lost:
            writers[storage] = (*writers.get(storage, ()), step.number)
    return writers
