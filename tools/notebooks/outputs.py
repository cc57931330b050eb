"""Read the texts and pictures of a cell's outputs, and compare the outputs with those of a new run."""

import re
from typing import Any

from .compare import same_output

_PICTURE = re.compile(r"<img\b|<svg\b", re.IGNORECASE)
_PIXELS = re.compile(r"data:image/[\w.+-]+;base64,[^\"'\s)>]*")


def all_texts(outputs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """List each text of a cell's outputs as (kind, text); the kind is the name of a stream, `error`, or a mime type."""
    texts = []
    for output in outputs:
        if output["output_type"] == "stream":
            texts.append((output["name"], output["text"]))
        elif output["output_type"] == "error":
            texts.append(("error", f"{output['ename']}: {output['evalue']}"))
        data = sorted(output.get("data", {}).items())  # sorted in a file, but not from a kernel
        texts += [(mime, value if isinstance(value, str) else str(value)) for mime, value in data]
    return texts


def count_pictures(outputs: list[dict[str, Any]]) -> int:
    """Count the pictures of a cell: image outputs, and each `<img>` or `<svg>` in HTML."""
    shown = [pair for output in outputs for pair in output.get("data", {}).items()]
    in_html = sum(len(_PICTURE.findall(text)) for mime, text in shown if mime == "text/html")
    return in_html + sum(mime.startswith("image/") for mime, _ in shown)


def same_outputs(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> bool:
    """Return whether a run gave the stored outputs again: texts up to the last digits, pixels exactly."""
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
    """Join consecutive parts of one stream, which a kernel splits differently in each run."""
    merged: list[Any] = []
    for output in outputs:
        last = merged[-1] if merged else None
        if last and output["output_type"] == last["output_type"] == "stream" and output["name"] == last["name"]:
            last["text"] += output["text"]
        else:
            merged.append(output)
    return merged


def first_difference(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> str:
    """Return the first difference of two outputs in one line, such as `'0.1234' -> '0.1334'`."""
    before, after = ([line for _, text in all_texts(each) for line in text.splitlines()] for each in (old, new))
    for old_line, new_line in zip(before, after, strict=False):
        if not same_output(old_line, new_line):
            return f"{_short(old_line, new_line)!r} -> {_short(new_line, old_line)!r}"
    if len(before) != len(after):
        return f"{len(before)} lines -> {len(after)} lines"
    return "a picture was drawn anew"


def _short(line: str, other: str, width: int = 60) -> str:
    """Shorten a long line to the part around the first character that differs from the other line."""
    first = next((i for i, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), min(len(line), len(other)))
    start = max(0, first - width // 2)
    excerpt = line[start : start + width]
    return ("..." if start else "") + excerpt + ("..." if start + width < len(line) else "")
