"""Find the line of a module's code that decides whether it makes a certain mistake."""

from __future__ import annotations

import re
from typing import NamedTuple


class Part(NamedTuple):
    """A part of attention: the pattern of its line, the mistakes that one makes there, and a question about it."""

    pattern: str
    mistakes: tuple[str, ...]
    question: str


PARTS = (
    Part(
        r"einsum|matmul|@ .*(transpose|\.mT)",
        ("scores-from-values", "missing-scale", "wrong-scale", "overflow-half"),
        "Which two tensors are multiplied, and by which number is the product scaled?",
    ),
    Part(
        r"torch\.ones\(",
        ("mask-inverted", "mask-off-by-one", "mask-transposed", "causal-top-left", "mask-rank"),
        "For three tokens, which elements of it are True?",
    ),
    Part(
        r"masked_fill|torch\.where",
        ("no-causal-mask", "mask-discarded", "mask-with-zero", "mask-after-softmax", "nan-on-hidden-rows"),
        "What does it write, where, and which line reads the result?",
    ),
    Part(
        r"softmax\(",
        ("softmax-wrong-axis", "double-softmax", "no-softmax", "weights-not-applied", "dropout-before-softmax"),
        "Along which axis, how often, and what becomes of the result?",
    ),
    Part(
        r"\.(view|unflatten)\(",
        ("split-without-transpose", "heads-share-weights", "projection-reused"),
        "What is split, and which axes does the line make, in which order?",
    ),
    Part(
        r"\.(reshape|flatten)\(",
        ("merge-without-transpose", "heads-averaged"),
        "In which order do the axes stand before they are joined?",
    ),
    Part(
        r"\.repeat",
        ("kv-heads-tiled", "kv-head-zero-only"),
        "With 6 heads and 2 kv heads, which kv head does each head get?",
    ),
    Part(
        r"return ",
        ("output-projection-missing", "output-projection-shape", "returns-none"),
        "What is given back, and which layers were called on the way?",
    ),
)


def question_about(mistake: str, source: str) -> str:
    """Return a question about the line that decides whether code makes a mistake, with the line if there is one.

    Nothing is claimed, so that what is said holds for a module with any other mistake.
    """
    for part in PARTS:
        lines = [line.strip() for line in source.splitlines() if re.search(part.pattern, line)]
        if mistake in part.mistakes and lines:
            return f"The line to look at for that: `{lines[0]}`. {part.question}"
    return "Which line of the code could do that?"
