"""`share_guesses("01", agree=True)` prints a learner's guesses of a lesson, so that they go along with a sheet."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from course_lib.workspace import FOLDERS, course_notebooks, find_workspace

from .prediction import LONGEST
from .progress_location import current_folder

ASKING = re.compile(r"^predict\(", re.MULTILINE)
_SAID = re.compile(r"^[✓✗] (You guessed .+; it is .+?\.)(?: Read on to see why\.)?$", re.MULTILINE)
_BOLD = re.compile(r"\*\*(\w[^*]*)\*\*")
SHARED = re.compile(  # a line that `share_guesses` prints
    rf"Lesson (\d\d), guess (\d\d?): You guessed (.{{1,{LONGEST + 1}}}?); it is (.{{1,{LONGEST + 1}}})\."
)
DAMAGED = (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError)  # of what a learner may have


class Prediction(NamedTuple):
    """Where a lesson asks for a guess: the call that compares it, and the question before it."""

    call: str
    question: str


def share_guesses(lesson: str | int, *, agree: bool = False) -> None:
    """Print the guesses that stand in a lesson's notebook, if a learner agrees that their teacher counts them.

    What it prints goes along with the sheet in which it runs, and nothing else does. It never raises.

    Args:
        lesson: The number of the lesson, such as "01".
        agree: Whether the guesses may go along.

    Example:
        >>> share_guesses("01")
        Your guesses stay with you.
    """
    if agree is not True:
        print("Your guesses stay with you.")
        return
    number = str(lesson).zfill(2)
    try:
        name = _lesson_notebook(number).name
        found = [path for path in _places(name) if path.is_file()]
        lines = _shared_lines(found[0], number) if found else []
    except DAMAGED as error:
        print(f"No guess could be read ({type(error).__name__}), so nothing goes along.")
        return
    nothing = f"No guess of lesson {number} was found, so nothing goes along: {_remedy(name, bool(found))}."
    print("\n".join(lines) or nothing)


@cache
def predictions(lesson: str) -> tuple[Prediction, ...]:
    """Return where a lesson of the course asks for a guess, in its order.

    Raises:
        IndexError, OSError: There is no such lesson, or no notebook at all.
    """
    asked, text = [], ""
    for cell in json.loads(_lesson_notebook(lesson).read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            text = source
        elif call := _call(source):
            paragraphs = text.split("\n\n")
            question = next((one for one in reversed(paragraphs) if "**Predict" in one), paragraphs[-1])
            asked.append(Prediction(call, " ".join(_BOLD.sub(r"\1", question).split()).removeprefix("Predict. ")))
    return tuple(asked)


def _lesson_notebook(lesson: str) -> Path:
    return sorted(course_notebooks().glob(f"{lesson}_*.ipynb"))[0]


def _places(name: str) -> Iterator[Path]:
    """Yield where a learner's copy of a lesson may lie: beside a sheet, above it, or in the learner's workspace."""
    if here := current_folder():
        workspace = find_workspace(here)
        yield from (folder / name for folder in (here, here.parent, here.parent / FOLDERS[""]))
        yield from [workspace / FOLDERS[""] / name] if workspace else []


def _shared_lines(path: Path, lesson: str) -> list[str]:
    """Return a line for each guess that stands in the outputs of a learner's notebook, as it was saved."""
    asked = [prediction.call for prediction in predictions(lesson)]
    said = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        call = _call("".join(cell["source"])) if cell["cell_type"] == "code" else None
        if call in asked and (match := _SAID.search(printed_text(cell))):
            said[asked.index(call) + 1] = match[1]
    return [f"Lesson {lesson}, guess {number}: {sentence}" for number, sentence in sorted(said.items())]


def _call(source: str) -> str | None:
    match = ASKING.search(source)
    return source[match.start() :].strip() if match else None


def printed_text(cell: dict[str, Any]) -> str:
    """Return what a code cell of a notebook has printed, whatever the file holds in its place."""
    outputs = cell.get("outputs")
    texts = [one.get("text") for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
    lists = [text if isinstance(text, list) else [text] for text in texts]
    return "\n".join("".join(part for part in parts if isinstance(part, str)) for parts in lists)


def _remedy(name: str, is_there: bool) -> str:
    if is_there:
        return f"write your guesses into {name}, run their cells and save it"
    return f"copy {name} with your guesses into the folder of this sheet"
