"""Find the line of a module's code that decides whether it makes a certain mistake."""

from __future__ import annotations

import re
from typing import NamedTuple

from course_lib.mistakes import CATALOGUE, Step


class Part(NamedTuple):
    """A part of attention: the pattern of its line, the steps that it computes, and a question about it."""

    pattern: str
    steps: set[Step]
    question: str


PARTS = (
    Part(
        r"einsum|matmul|@ .*(transpose|\.mT)",
        {Step.PRODUCT, Step.SCALE},
        "Which two tensors are multiplied, and by which number is the product scaled?",
    ),
    Part(r"torch\.ones\(", {Step.MASK}, "For three tokens, which elements of it are True?"),
    Part(r"masked_fill|torch\.where", {Step.FILL}, "What does it write, where, and which line reads the result?"),
    Part(r"softmax\(", {Step.SOFTMAX, Step.VALUES}, "Along which axis, how often, and what becomes of the result?"),
    Part(
        r"\.(view|unflatten)\(",
        {Step.PROJECTION, Step.HEADS},
        "What is split, and which axes does the line make, in which order?",
    ),
    Part(r"\.(reshape|flatten)\(", {Step.MERGE}, "In which order do the axes stand before they are joined?"),
    Part(r"\.repeat", {Step.SHARING}, "With 6 heads and 2 kv heads, which kv head does each head get?"),
    Part(r"return ", {Step.OUTPUT}, "What is given back, and which layers were called on the way?"),
)


def question_about(mistake: str, source: str) -> str:
    """Return a question about the line that decides whether code makes a mistake, with the line if there is one.

    Nothing is claimed, so that what is said holds for a module with any other mistake.
    """
    for part in PARTS:
        lines = [line.strip() for line in source.splitlines() if re.search(part.pattern, line)]
        if CATALOGUE[mistake].origin.step in part.steps and lines:
            return f"The line to look at for that: `{lines[0]}`. {part.question}"
    return "Which line of the code could do that?"
