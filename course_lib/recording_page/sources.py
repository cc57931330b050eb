"""Find the numbers that each number of a step's result was computed from, as the recorded call itself tells it.

A number comes from another one if a change of that one could change it, while all others stay as they were. That is
said of one step: a page joins the steps' paths, on which effects may cancel, as a bias of the keys does. So a value
times a weight of 0 is left out, but the 0 itself is not. A number that only decides which number is read, such as an
index or a mask, is a source as well. Of a maximum and the like, the source is the number that was selected.
"""

from collections.abc import Sequence
from contextlib import ExitStack

import torch

from course_lib.recorder import Step
from course_lib.tracing import torch_private

from .elementwise import elementwise_sources
from .fused_attention import fused_attention_sources
from .gradients import gradient_sources
from .movement import movement_sources
from .recorded_call import Table
from .scatter import scatter_sources
from .selection import selection_sources
from .shown_tensor import ShownTensor
from .softmax import softmax_sources

RULES = (
    softmax_sources, fused_attention_sources, elementwise_sources, selection_sources, scatter_sources,
    movement_sources, gradient_sources,
)  # fmt: skip


def sources_of(step: Step, result: ShownTensor, inputs: Sequence[ShownTensor]) -> list[Table]:
    """Return the sources of each shown number of a step's result among the elements of each of its inputs.

    None in place of an input's sources means that no rule knows them, so that the result may depend on all of it.
    """
    if not inputs:
        return []
    if len(inputs) > 1 and any(_decides(source) and source.is_overwritten_after(step.number) for source in inputs):
        return [None] * len(inputs)  # what they chose then is not known any more
    step = step.as_it_ran
    with ExitStack() as stack:
        stack.enter_context(torch_private.without_function_modes())
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.autocast("cpu", enabled=False))
        for rule in RULES:
            try:
                tables = rule(step, result, inputs)
            except (RuntimeError, TypeError, ValueError, LookupError, NotImplementedError, AssertionError):
                continue  # this rule does not fit the call; another may
            if tables is not None:
                return tables
    return [None] * len(inputs)


def _decides(tensor: ShownTensor) -> bool:
    return not tensor.dtype.is_floating_point and not tensor.dtype.is_complex
