"""A cell's outputs: their texts, their pictures, and whether a new run gave the same ones."""

import re
from collections.abc import Iterator
from typing import Any

from course_lib.lessons.compare import same_output

_PICTURE = re.compile(r"<img\b|<svg\b", re.IGNORECASE)
_PIXELS = re.compile(r"data:image/[\w.+-]+;base64,[^\"'\s)>]*")


def texts(output: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each text of an output as (kind, text): a stream's name, ``error``, or a mime type."""
    kind = output["output_type"]
    if kind == "stream":
        yield output["name"], output["text"]
    elif kind == "error":
        yield "error", f"{output['ename']}: {output['evalue']}"
    for mime, value in sorted(output.get("data", {}).items()):  # a stored file sorts them, a kernel does not
        yield mime, value if isinstance(value, str) else str(value)


def all_texts(outputs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """List each text of a cell's outputs as (kind, text), in order."""
    return [pair for output in outputs for pair in texts(output)]


def count_pictures(outputs: list[dict[str, Any]]) -> int:
    """Count the pictures of a cell: image outputs, and ``<img>`` or ``<svg>`` inside HTML."""
    count = 0
    for output in outputs:
        data = output.get("data", {})
        count += sum(mime.startswith("image/") for mime in data)
        count += len(_PICTURE.findall(data.get("text/html", "")))
    return count


def same_outputs(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> bool:
    """Say whether a run gave a cell's stored outputs again: texts up to the last digits, pixels exactly."""
    old_texts, new_texts = all_texts(old), all_texts(new)
    if [kind for kind, _ in old_texts] != [kind for kind, _ in new_texts]:
        return False
    for (kind, before), (_, after) in zip(old_texts, new_texts, strict=True):
        if kind.startswith("image/") or _PIXELS.findall(before) != _PIXELS.findall(after):
            if before != after:
                return False
        elif not same_output(before, after):
            return False
    return True


def merge_streams(outputs: list[Any]) -> list[Any]:
    """Join neighbouring pieces of one stream, which arrive cut at a place that differs from run to run."""
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output["output_type"] == last["output_type"] == "stream" and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            merged.append(output)
    return merged


def first_difference(old: list[dict[str, Any]], new: list[dict[str, Any]], width: int = 60) -> str:
    """Say in one line where two outputs part: ``'0.1234' -> '0.1334'``."""
    before, after = _lines(old), _lines(new)
    for one, other in zip(before, after, strict=False):
        if not same_output(one, other):
            return f"{_short(one, other, width)!r} -> {_short(other, one, width)!r}"
    if len(before) != len(after):
        return f"{len(before)} lines -> {len(after)} lines"
    return "a picture was drawn anew"


def _lines(outputs: list[dict[str, Any]]) -> list[str]:
    return [line for _, text in all_texts(outputs) for line in text.splitlines()]


def _short(line: str, other: str, width: int) -> str:
    """Cut a long line around the first place where it leaves the other one."""
    place = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), min(len(line), len(other)))
    start = max(0, place - width // 2)
    piece = line[start : start + width]
    return ("..." if start else "") + piece + ("..." if start + width < len(line) else "")
