"""Questions about somebody's own attention, with the answers that running it gave: five minutes in a room."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from course_lib.mistakes import CATALOGUE
from course_lib.mutations import MADE, Mutation, Source, built, mutations
from course_lib.recorder import record
from course_lib.tracing import text_of

MOVED = {
    "view": "nothing is copied: it is a view of the memory of what it was made from",
    "copy": "the same elements stand in new memory",
    "in-place": "it is the memory that was there before, with other elements",
    "compute": "its elements are computed, in new memory",
}


class OralQuestion(NamedTuple):
    """A question for one person.

    Attributes:
        text: What is asked.
        answer: What is right, as it was when the code ran.
        code: The code that is asked about, which stands beside the question.
    """

    text: str
    answer: str
    code: str


def oral_questions(code: type | FunctionType, arguments: Sequence[Any], *, seed: int = 0) -> list[OralQuestion]:
    """Ask about a line's result, about what a change does, and for the line of a planted mistake.

    Args:
        code: A function, or a class of `nn.Module`; its source is read.
        arguments: Those of the function. Of a class its constructor's, and as the last one the input x.
        seed: Another one chooses other lines and other changes.

    Returns:
        Up to three questions: those that the code allows. Each answer was found by running it.

    Raises:
        ValueError: The source can't be read.
    """
    text = text_of(code)
    if text is None:
        raise ValueError(f"the source of {code.__name__} can't be read: define it in a file or in a notebook's cell")
    draw = random.Random(seed)
    changes = list(_changes(code, text, arguments))
    draw.shuffle(changes)
    made = [_about_a_line(code, text, arguments, draw)]
    made += [_about_a_change(*changes[0], text)] if changes else []
    made += [_about_a_mistake(*changes[-1])] if len(changes) > 1 else []
    return [question for question in made if question]


def _run(code: Any, arguments: Sequence[Any]) -> Any:
    """Call a function, or build a module with the same weights each time and call it in evaluation; return a tensor."""
    arguments = copy.deepcopy(list(arguments))
    result = _module(code, arguments)(arguments[-1]) if isinstance(code, type) else code(*arguments)
    return result[0] if isinstance(result, tuple) else result  # an output beside its cache


def _module(code: type[nn.Module], arguments: Sequence[Any]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        return code(*arguments[:-1]).eval()


def _about_a_line(code: Any, text: str, arguments: Sequence[Any], draw: random.Random) -> OralQuestion | None:
    subject = _module(code, arguments) if isinstance(code, type) else code
    recording = record(subject, *(arguments[-1:] if isinstance(code, type) else arguments))
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    steps = {}  # source of a statement -> its last step
    for step in recording.steps:
        at = [number for number, line in enumerate(lines, start=1) if line and step.source.startswith(line)]
        if len(at) == 1 and step.tensor.ndim > 1:
            steps[at[0]] = step
    if not steps:
        return None
    layout = {number: step for number, step in steps.items() if step.is_layout}
    number, step = draw.choice(sorted((layout or steps).items()))
    asked = f"Which shape has the result of line {number}, and was anything copied for it?"
    return OralQuestion(f"{_called(code, arguments)} {asked}", f"{step.shape}; {MOVED[step.effect]}.", text)


def _called(code: Any, arguments: Sequence[Any]) -> str:
    """Say with which numbers and shapes the code was built and called."""
    names = [name for name in inspect.signature(code).parameters if name != "self"]
    shown = [f"a tensor of shape {tuple(each.shape)}" if isinstance(each, Tensor) else repr(each) for each in arguments]
    named = [f"{name} = {value}" for name, value in zip(names, shown, strict=False)]
    if isinstance(code, type):
        return f"It is built with {', '.join(named[: len(arguments) - 1])}, and called with {shown[-1]}."
    return f"It is called with {', '.join(named)}."


def _changes(code: Any, text: str, arguments: Sequence[Any]) -> Iterator[tuple[Mutation, str, Any, Any]]:
    """Yield the mistakes that can be made in the code, with the code, the result before and the result or error."""
    source, before = Source(text), _run(code, arguments)
    if not isinstance(before, Tensor) or not _equal(before, _run(code, arguments)):
        return  # nothing can be said of what a change does
    for mistake in MADE:
        for mutation in mutations(text, mistake):
            edited = source.edited(mutation.edits)
            try:
                after = _run(built(edited, code), arguments)
            except Exception as error:  # whatever the changed code raises is what it does
                after = error
            if isinstance(after, (Tensor, Exception)) and not _equal(before, after):
                yield mutation, edited, before, after


def _equal(before: Tensor, after: Any) -> bool:
    same_shape = isinstance(after, Tensor) and before.shape == after.shape
    return same_shape and torch.allclose(before, after, equal_nan=True)


def _changed_line(text: str, edited: str) -> tuple[int, str, str]:
    """Return the number of the first line that differs, as it was, and as it is."""
    pairs = zip(text.splitlines(), edited.splitlines(), strict=False)
    return next((n, old.strip(), new.strip()) for n, (old, new) in enumerate(pairs, start=1) if old != new)


def _about_a_change(mutation: Mutation, edited: str, before: Tensor, after: Any, text: str) -> OralQuestion:
    number, _, new = _changed_line(text, edited)
    asked = f"Line {number} becomes `{new}`. Does it still run, and which rows of the result change?"
    return OralQuestion(asked, _what_changes(before, after), text)


def _what_changes(before: Tensor, after: Any) -> str:
    if isinstance(after, Exception):
        return f"It stops: {type(after).__name__}: {str(after).splitlines()[0] if str(after) else ''}"
    if after.shape != before.shape:
        return f"It runs, and its result is {tuple(after.shape)} in place of {tuple(before.shape)}."
    changed = ~torch.isclose(before, after, equal_nan=True)
    if before.ndim < 2:
        return f"It runs; {int(changed.sum())} of {before.numel()} elements change."
    rows = changed.movedim(-2, 0).flatten(1).any(dim=1).tolist()
    of_each = [number for number, moved in enumerate(rows) if moved]
    which = "all of them" if all(rows) else ", ".join(map(str, of_each)) or "none, but for rounding"
    return f"It runs, with the same shape. The rows that change: {which} (of {len(rows)}, counted from 0)."


def _about_a_mistake(mutation: Mutation, edited: str, before: Tensor, after: Any) -> OralQuestion:
    title = CATALOGUE[mutation.mistake].title
    line = edited.splitlines()[mutation.line - 1].strip()
    asked = "This is your code with one mistake planted. On which line is it, and what does it do?"
    return OralQuestion(asked, f"Line {mutation.line}, `{line}`. {title} {_what_changes(before, after)}", edited)
