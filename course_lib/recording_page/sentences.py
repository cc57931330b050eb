"""Say in sentences what each step did and where its result lies."""

from collections.abc import Sequence

from course_lib.tracing import storage_of
from course_lib.wording import counted, listed

from .rules import rule_of
from .shown_tensor import ShownTensor
from .story import Stage, Story
from .unread_inputs import unread_inputs

EFFECTS = {
    "view": "This is a view: no number moves, and the same memory is read in another way.",
    "copy": "This is a copy: the same numbers are written to new memory.",
    "compute": "This computes new numbers in new memory.",
    "in-place": "This writes into memory that was there before.",
}
SAME_ORDER = "This is a view: no number moves. They are read in the same order and only cut into other rows and tables."
OTHER_ORDER = "This is a view: no number moves. The same memory is read in another order."
SAME = "Nothing changes: the result is the tensor that went in."
UNREAD_BEFORE_ERROR = "No step reads the result before the error ends the run."


def of_stage(stage: Stage, *, failed: bool = False) -> str:
    """Return the sentences of one step of a run, which may have failed later."""
    step, result = stage.step, stage.result
    name = f"`{result.title}`" if step.name or step.written else "a tensor without a name"
    gives = "writes into" if step.written else "gives"
    begin = f"Line {step.where}: " if step.where else ""
    reads = _reads(stage)
    sentences = [f"{begin}`{step.op}` {reads} {gives} {name}." if reads else f"{begin}`{step.op}` makes {name}."]
    sentences += [_effect(stage), of_tensor(result)]
    sentences += filter(None, [rule_of(stage)])
    if "all" in stage.sources:
        sentences.append(
            f"The page does not know which numbers `{step.op}` reads for each result, so each may depend on all."
        )
    if not step.used:
        sentences.append(UNREAD_BEFORE_ERROR if failed else "Nothing reads the result afterwards.")
    elif failed and step.read_by_failed and not step.users:
        sentences.append("The call that raised the error read it.")
    return " ".join(sentences)


def opening_sentences(opening: Sequence[tuple[str, str]], story: Story) -> dict[int, str]:
    """Find the steps with which a page opens, each after the one before: number of a step -> its sentence."""
    names, found, at = [stage.result.title for stage in story.stages], {}, 0
    for name, sentence in opening:
        if name not in names[at:]:
            raise ValueError(
                f"opening has {name!r}, which is no step, or none after those before it: {', '.join(names)}."
            )
        at = names.index(name, at) + 1
        found[story.stages[at - 1].step.number] = sentence
    return found


def _reads(stage: Stage) -> str:
    """Say what a step reads, and of which tensors it reads only the shape or dtype."""
    names = [name + _written_into(tensor, stage) for name, tensor in zip(stage.names, stage.inputs, strict=True)]
    unused = set(map(id, unread_inputs(stage.step)))
    is_unread = [id(tensor) in unused for tensor in stage.step.call.tensors]
    read = listed(dict.fromkeys(name for name, no in zip(names, is_unread, strict=True) if not no))
    others = listed(dict.fromkeys(name for name, no in zip(names, is_unread, strict=True) if no))
    if read and others:
        return f"reads {read}, and no number of {others}, and"
    return f"reads {read or f'no number of {others}'} and" if names else ""


def _written_into(tensor: ShownTensor, stage: Stage) -> str:
    """Name the steps that wrote into the memory of an input through another view."""
    storage = storage_of(tensor.tensor)
    writers = [other.key for other in stage.reads if other not in stage.inputs and storage_of(other.tensor) == storage]
    return f" with what {_steps(writers)} wrote into its memory" if writers else ""


def _steps(keys: Sequence[str]) -> str:
    return f"step {keys[0]}" if len(keys) == 1 else f"steps {listed(sorted(keys, key=int))}"


def of_tensor(tensor: ShownTensor) -> str:
    """Return the sentences on a tensor: its axes, strides, memory, and what is not shown of it."""
    strides = f"stride {tensor.stride}, " if tensor.shape else ""
    sentences = [f"Shape {tensor.shape}{axes(tensor)}, {strides}{str(tensor.dtype).removeprefix('torch.')}."]
    if "mixed" in tensor.axes:
        so = "" if tensor.wrong_rows else ", so a row belongs to no single token"
        sentences.append(f"An axis called mixed runs through tokens and features at once{so}.")
    if any(tensor.wrong_rows) and tensor.meant:
        wrong, rows = sum(tensor.wrong_rows), counted(len(tensor.wrong_rows), "row")
        sentences.append(
            f"It has the shape of `{tensor.meant.title}`, but {wrong} of its {rows} belong to another token or another "
            "head, as the names of the rows say."
        )
    sentences += [_joined(name) for name in dict.fromkeys(tensor.axes) if " and " in name]
    if not tensor.numel:
        sentences.append("It has no elements.")
    elif not tensor.is_whole:
        sentences.append(
            f"Shown are {len(tensor.cells)} of its {counted(tensor.numel, 'number')}, from the beginning of each axis."
        )
    if tensor.values is None:
        sentences.append("Its numbers can't be read.")
    if tensor.overwritten is not None:
        sentences.append(
            f"Step {tensor.overwritten} later wrote into this memory: the numbers shown are those after the run."
        )
    return " ".join(sentences)


def _joined(name: str) -> str:
    outer, *_ = parts = name.split(" and ")
    position = " of ".join(f"one {part}" for part in reversed(parts))
    return f"The axis called {name} runs on from one {outer} to the next: each place along it is {position}."


def axes(tensor: ShownTensor) -> str:
    """Return the names of a tensor's axes in brackets, or nothing if none is known."""
    names = [name or ("1" if size == 1 else "?") for name, size in zip(tensor.axes, tensor.shape, strict=True)]
    return f" ({', '.join(names)})" if any(tensor.axes) else ""


def of_story(story: Story) -> list[str]:
    """Return the sentences on how the run ended, which stand above its steps."""
    sentences = []
    if story.left_out:
        sentences.append(f"{counted(story.left_out, 'further step')} of the run are left out.")
    if story.error:
        after = f"After step {story.stages[-1].step.number}" if story.stages else "Before any step"
        where = (
            f", line {story.error_line}, `{story.error_line.text}`, raised" if story.error_line else " the code raised"
        )
        sentences.append(f"{after}{where} {story.error}")
    if not story.stages:
        sentences.append("The run has no steps: no operation of PyTorch returned a tensor.")
    return sentences


def _effect(stage: Stage) -> str:
    same: Sequence[ShownTensor] = [tensor for tensor in stage.inputs if _layout(tensor) == _layout(stage.result)]
    if stage.step.effect == "view" and same:
        return SAME
    if stage.step.effect == "view" and len(stage.inputs) == 1 and stage.inputs[0].numel == stage.result.numel:
        source, result = stage.inputs[0], stage.result
        if source.is_whole and result.is_whole:
            return SAME_ORDER if source.slots == result.slots else OTHER_ORDER
    return EFFECTS[stage.step.effect]


def _layout(tensor: ShownTensor) -> tuple:
    return tensor.shape, tensor.stride, tensor.offset, tensor.dtype, storage_of(tensor.tensor)
