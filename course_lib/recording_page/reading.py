"""Find what each step of a run read: the tensors that held its inputs at that time, and which elements."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.recorder import Step

from .lone_scores import Read, without_lone_scores
from .memory import Memory
from .shown_tensor import ShownTensor
from .softmax import is_lone
from .sources import sources_of


class Reading:
    """What the steps of a run have read so far, and what they wrote."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._past: dict[str, tuple[str, Read]] = {}  # key of a result -> the operation, and what it read

    def add(self, step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> Read:
        """Return what the next step read, given its result and its inputs as the earlier steps returned them."""
        tables = sources_of(step, result, inputs)
        lone = is_lone(step.as_it_ran, result, inputs)
        if lone is None or (table := tables[0]) is None:
            read = self._memory.trace(inputs, tables)
        else:
            read = without_lone_scores(result, lone, table, lambda t: self._memory.trace(inputs, [t]), self._past)
        self._past[result.key] = step.op, read
        if step.effect == "in-place":
            self._memory.note(result)
        return read
