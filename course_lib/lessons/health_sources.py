"""What may not stand in a lesson's cells: ways around the checks, and pictures that are fetched or mute."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from course_lib.lessons.health_outputs import REMOTE, REMOTE_STYLE

UNCHECKED = "nbval-ignore-output"  # nbval does not compare this cell's outputs
REASONS = {"versions", "timing", "trained"}  # the only reasons for that
_FORBIDDEN_TAGS = {"nbval-skip", "nbval-raises-exception", "raises-exception", "pytest-validate-ignore-output"}
_COMMENT = re.compile(r"^\s*#\s*(NBVAL_\w+|PYTEST_VALIDATE_\w+)", re.MULTILINE)
_REMOTE_IMAGE = re.compile(r"!\[[^\]]*\]\(\s*<?(?:https?:)?//|!\[[^\]]*\]\[")
_MUTE_IMAGE = re.compile(r"!\[\s*\]")


def tags(cell: Any) -> Iterator[str]:
    """Only versions, timings and what training ends in go unchecked, and they say so."""
    have = set(cell.metadata.get("tags", ()))
    for tag in sorted(have & _FORBIDDEN_TAGS):
        yield f"has the tag {tag}; every cell of a lesson runs and none raises."
    if UNCHECKED in have and not have & REASONS:
        reasons = " or ".join(sorted(REASONS))
        yield f"has the tag {UNCHECKED} without a reason; only cells tagged {reasons} may go unchecked."
    for comment in _COMMENT.findall(cell.source):
        yield f"holds the comment {comment}; say it with tags instead."


def empty(cell: Any) -> Iterator[str]:
    """A cell without code can't be told from one that was never run."""
    if not cell.source.strip():
        yield "is empty."


def markdown(source: str) -> Iterator[str]:
    """A picture in the prose is in the repository and has alt text."""
    if _REMOTE_IMAGE.search(source) or REMOTE.search(source) or REMOTE_STYLE.search(source):
        yield "shows an image that is fetched from the network."
    if _MUTE_IMAGE.search(source):
        yield "shows an image without alt text."


CHECKS: tuple[Callable[[Any], Iterator[str]], ...] = (tags, empty)
