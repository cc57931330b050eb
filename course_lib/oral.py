"""Questions about somebody's own attention, with the answers that running it gave: five minutes in a room."""

from __future__ import annotations

import ast
import copy
import random
import re
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
LINE_ASKED = "Which shape has the result of line {}, and was anything copied for it?"
PLANTED = "This is your code with one mistake planted. On which line is it, and what does it do?"
_SEEN = re.compile(  # what `_what_changes` says
    r"It stops: \w+: .*|It runs, and its result is \([\d, ]*\) in place of \([\d, ]*\)\."
    r"|It runs; \d+ of \d+ elements change\."
    r"|It runs, with the same shape\. The rows that change: [\w, -]+ \(of \d+, counted from 0\)\."
)
_LAYOUT = re.compile(rf"\([\d, ]*\); (?:{'|'.join(map(re.escape, MOVED.values()))})\.")


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


def is_about(question: OralQuestion, text: str, arguments: Sequence[Any]) -> bool:
    """Return whether a question, whoever made it, is one that `oral_questions` may ask about this code.

    Its words, its line and its planted mistake are compared with those that the code allows, without running it. Of
    what happened when it ran, only the form is.
    """
    if question.code == text and _LAYOUT.fullmatch(question.answer):
        lines = range(1, len(text.splitlines()) + 1)
        return question.text in (f"{_called(text, arguments)} {LINE_ASKED.format(line)}" for line in lines)
    source = Source(text)
    for mutation in (one for mistake in MADE for one in mutations(text, mistake)):
        edited = source.edited(mutation.edits)
        asked, begins = PLANTED, _where(mutation, edited)
        if question.code == text:
            asked, begins = _change_asked(text, edited), ""
        if question.text == asked and question.code in (text, edited) and question.answer.startswith(begins):
            return bool(_SEEN.fullmatch(question.answer.removeprefix(begins)))
    return False


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
    asked = f"{_called(text, arguments)} {LINE_ASKED.format(number)}"
    return OralQuestion(asked, f"{step.shape}; {MOVED[step.effect]}.", text)


def _called(text: str, arguments: Sequence[Any]) -> str:
    """Say with which numbers and shapes a function or a class was called, with the names that its source gives them."""
    definition: Any = ast.parse(text).body[-1]
    is_class = isinstance(definition, ast.ClassDef)
    made: list[Any] = [definition]
    if is_class:
        made = [node for node in definition.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    named = [each.arg for one in made for each in (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs)]
    names = [name for name in named if name != "self"]
    shown = list(map(_argument, arguments))
    pairs = [f"{name} = {value}" for name, value in zip(names, shown, strict=False)]
    if is_class:
        return f"It is built with {', '.join(pairs[: len(arguments) - 1])}, and called with {shown[-1]}."
    return f"It is called with {', '.join(pairs)}."


def _argument(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    plain = isinstance(value, (int, float, str, tuple, list, range, torch.dtype)) or value is None
    return repr(value) if plain else f"a {type(value).__name__}"


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
    return OralQuestion(_change_asked(text, edited), _what_changes(before, after), text)


def _change_asked(text: str, edited: str) -> str:
    number, _, new = _changed_line(text, edited)
    return f"Line {number} becomes `{new}`. Does it still run, and which rows of the result change?"


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
    return OralQuestion(PLANTED, _where(mutation, edited) + _what_changes(before, after), edited)


def _where(mutation: Mutation, edited: str) -> str:
    line = edited.splitlines()[mutation.line - 1].strip()
    return f"Line {mutation.line}, `{line}`. {CATALOGUE[mutation.mistake].title} "
