"""Reads the shape comments of the library, such as `# (b, t, h, d) -> (b, h, t, d)`, and checks them by recordings."""

import re
from collections.abc import Iterator
from pathlib import Path

from course_lib.tracing import tensors_in

SHAPE = re.compile(r"\([^()]*,[^()]*\)")


def commented_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, comment) of each comment that says how a shape changes."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        code, _, comment = line.partition("  # ")
        if code.strip() and "-> " in comment:
            yield number, comment


def shapes_in(comment: str, sizes: dict[str, int]) -> list[list[tuple[int, ...]]]:
    """Turn a comment into integers: for each side of an arrow, the shapes that stand there."""
    sides = re.sub(r"\b[a-z] times |:.*$", "", comment).split("-> ")
    return [[_shape(text, sizes) for text in SHAPE.findall(side)] for side in sides]


def _shape(text: str, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(eval(part, {}, sizes) for part in text.strip("()").split(","))  # such as (b, t, h * d)


def lies(path: Path, steps: list, sizes: dict[str, int]) -> tuple[list[str], set[int]]:
    """Compare the comments of a file with the steps that ran on their lines.

    Returns:
        What doesn't agree, in words; and the lines that could be compared.
    """
    found, compared = [], set()
    for number, comment in commented_lines(path):
        here = [step for step in steps if step.file == str(path) and step.line == number]
        if not here:
            continue
        compared.add(number)
        sides = shapes_in(comment, sizes)
        last = {step.shape for step in here if step.call is here[-1].call}
        if {sides[-1][-1]} != last:
            found.append(f"{path.name}:{number} ends in {sides[-1][-1]}, really {sorted(last)}")
        seen = [tuple(tensor.shape) for step in here for tensor in tensors_in(step.call.args)]
        seen += [step.shape for step in here]
        for shape in (shape for side in sides[:-1] for shape in side):
            if shape not in seen:
                found.append(f"{path.name}:{number} speaks of {shape}, which isn't there: {seen}")
    return found, compared
