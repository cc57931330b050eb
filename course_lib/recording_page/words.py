"""Say in sentences what each step did and where its result lies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from course_lib.tracing import storage_of
from course_lib.wording import counted, listed

from .shown import ShownTensor
from .story import Stage, Story

CALLED_WITH = re.compile(r"[\w.]+\((\w+)\)")  # an operation with one tensor, such as q_proj(x)
EFFECTS = {
    "view": "This is a view: no number moves, and the same memory is read in another way.",
    "copy": "This is a copy: the same numbers are written to new memory.",
    "compute": "This computes new numbers in new memory.",
    "in-place": "This writes into memory that was there before.",
}
SAME = "Nothing changes: the result is the tensor that went in."


def of_stage(stage: Stage) -> str:
    """Return the sentences of one step."""
    step, result = stage.step, stage.result
    name = f"`{result.title}`" if step.name else "a tensor without a name"
    begin = f"Line {step.where}: " if step.where else ""
    reads = listed(dict.fromkeys(_names(stage)))
    said = [f"{begin}`{step.op}` reads {reads} and gives {name}." if reads else f"{begin}`{step.op}` makes {name}."]
    said += [_effect(stage), of_tensor(result)]
    if "all" in stage.sources:
        said.append(
            f"The page does not know which numbers `{step.op}` reads for each result, so each may depend on all."
        )
    if not step.used:
        said.append("Nothing reads the result afterwards.")
    return " ".join(said)


def _names(stage: Stage) -> Iterator[str]:
    """Yield what a step reads, by the name in its line where one tensor has another name there."""
    called = CALLED_WITH.fullmatch(stage.step.code)
    for number, one in enumerate(stage.inputs):
        other = called[1] if called and number == 0 and called[1] != one.title else None
        name = f"`{other}` (the tensor `{one.title}`)" if other else f"`{one.title}`"
        yield name + _written_into(one, stage)


def _written_into(one: ShownTensor, stage: Stage) -> str:
    """Name the steps whose writes through another view are among the numbers that a step reads of a tensor."""
    storage = storage_of(one.tensor)
    writers = [other.key for other in stage.reads if other not in stage.inputs and storage_of(other.tensor) == storage]
    return f" with what {_steps(writers)} wrote into its memory" if writers else ""


def _steps(keys: Sequence[str]) -> str:
    return f"step {keys[0]}" if len(keys) == 1 else f"steps {listed(sorted(keys, key=int))}"


def of_tensor(one: ShownTensor) -> str:
    """Return the sentences on a tensor: its axes, strides, memory, and what is not shown of it."""
    strides = f"stride {one.stride}, " if one.shape else ""
    said = [f"Shape {one.shape}{axes(one)}, {strides}{str(one.dtype).removeprefix('torch.')}."]
    if "mixed" in one.axes:
        said.append(
            "An axis called mixed runs through tokens and features at once, so a row belongs to no single token."
        )
    if not one.numel:
        said.append("It has no elements.")
    elif not one.is_whole:
        said.append(
            f"Shown are {len(one.cells)} of its {counted(one.numel, 'number')}, from the beginning of each axis."
        )
    if one.values is None:
        said.append("Its numbers can't be read.")
    if one.overwritten is not None:
        said.append(f"Step {one.overwritten} later wrote into this memory: the numbers shown are those after the run.")
    return " ".join(said)


def axes(one: ShownTensor) -> str:
    """Return the names of a tensor's axes in brackets, or nothing if none is known."""
    names = [name or "?" for name in one.axes]
    return f" ({', '.join(names)})" if any(one.axes) else ""


def of_story(story: Story) -> list[str]:
    """Return the sentences on how the run ended, which stand above its steps."""
    said = []
    if story.left_out:
        said.append(f"{counted(story.left_out, 'further step')} of the run are left out.")
    if story.error:
        after = f"After step {story.stages[-1].step.number}" if story.stages else "Before any step"
        where = (
            f", line {story.error_line}, `{story.error_line.text}`, raised" if story.error_line else " the code raised"
        )
        said.append(f"{after}{where} {story.error}")
    if not story.stages:
        said.append("The run has no steps: no operation of PyTorch returned a tensor.")
    return said


def _effect(stage: Stage) -> str:
    same: Sequence[ShownTensor] = [
        one for one in stage.inputs if (one.shape, one.stride, one.offset) == _layout(stage.result)
    ]
    if stage.step.effect == "view" and same:
        return SAME
    return EFFECTS[stage.step.effect]


def _layout(one: ShownTensor) -> tuple:
    return one.shape, one.stride, one.offset
