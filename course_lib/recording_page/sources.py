"""Find the numbers that each number of a step's result was computed from, as the recorded call itself tells it.

A number comes from another one if a change of that one could change it, while all others stay as they were. That is
said of one step: a page joins the steps' paths, on which effects may cancel, as a bias of the keys does. So a value
times a weight of 0 is left out, but the 0 itself is not. A number that only decides which number is read, such as an
index or a mask, is a source as well. Of a maximum and the like, the source is the number that was selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import torch
from torch import Tensor

from course_lib.recorder import Step
from course_lib.tracing import torch_private

from .elementwise import elementwise
from .fused import fused
from .gradients import by_gradient
from .moved import moved
from .scattered import scattered
from .selected import selected
from .shown import ShownTensor
from .softmax import softmax

RULES = (softmax, fused, elementwise, selected, scattered, moved, by_gradient)
Found = list[Tensor | None]  # for each input, (cell of the result, element of the input) as booleans; None: all of it


def sources_of(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> Found:
    """Return the sources of each shown number of a step's result among the elements of each of its inputs.

    None in place of an input's sources means that no rule knows them, so that the result may depend on all of it.
    """
    if not inputs:
        return []
    if len(inputs) > 1 and any(_decides(one) and one.is_overwritten_after(step.number) for one in inputs):
        return [None] * len(inputs)  # what they chose then is not known any more
    step = step.as_it_ran
    with ExitStack() as stack:
        stack.enter_context(torch_private.without_function_modes())
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.autocast("cpu", enabled=False))
        for rule in RULES:
            try:
                found = rule(step, result, inputs)
            except (RuntimeError, TypeError, ValueError, LookupError, NotImplementedError, AssertionError):
                continue  # this rule does not fit the call; another may
            if found is not None:
                return found
    return [None] * len(inputs)


def _decides(one: ShownTensor) -> bool:
    return not one.dtype.is_floating_point and not one.dtype.is_complex
