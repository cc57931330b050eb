"""Format a recording as a table, for a terminal and for a notebook."""

import unicodedata
from collections.abc import Sequence
from html import escape

from .step import Step

HEADINGS = ("step", "operation", "result", "shape", "stride", "memory", "effect", "where", "code")
LONGEST_CODE = 48


def as_text(steps: Sequence[Step], error: str | None, *, expanded: bool) -> str:
    """Return the table as text for a monospace font, one line per step."""
    rows = [HEADINGS, *(row for step in steps for row in _rows(step, expanded))]
    widths = [max(_cells(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(map(_padded, row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, *_notes(steps, error)])


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _cells(text))


def _cells(text: str) -> int:
    """Return the width of a text in a terminal: a Chinese letter or an emoji takes two cells, an accent none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in text)
    return len(text) + wide - sum(unicodedata.category(character) in ("Mn", "Me", "Cf") for character in text)


def as_html(steps: Sequence[Step], error: str | None, *, expanded: bool) -> str:
    """Return the table as HTML without scripts and styles, which a notebook shows before it is trusted."""
    head = "".join(f'<th scope="col">{heading}</th>' for heading in HEADINGS)
    body = "".join(
        "<tr>" + "".join(_cell(heading, cell) for heading, cell in zip(HEADINGS, row, strict=True)) + "</tr>"
        for step in steps
        for row in _rows(step, expanded)
    )
    notes = "".join(f"<p>{escape(note)}</p>" for note in _notes(steps, error))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _cell(heading: str, text: str) -> str:
    if not text:
        return "<td></td>"
    if heading == "code":
        return f"<td><code>{escape(text)}</code></td>"
    return f"<td>{escape(text)}</td>".replace(", ", ",\N{NO-BREAK SPACE}")  # a shape stays on one line


def _rows(step: Step, expanded: bool) -> list[tuple[str, ...]]:
    op = step.op if step.part is None else f"{step.op} {step.part[0] + 1}/{step.part[1]}"
    code = step.code if len(step.code) <= LONGEST_CODE else step.code[: LONGEST_CODE - 3] + "..."
    effect = step.effect if step.used else f"{step.effect}, never used"
    first = (
        str(step.number), op, step.name or "", str(step.shape), str(step.stride), str(step.storage), effect,
        step.where, code,
    )  # fmt: skip
    if not expanded or (step.part and step.part[0]):
        return [first]
    below = [
        ("", f"- {aten.op}", "", str(aten.shape), str(aten.stride), _size(aten.nbytes), aten.effect, "", "")
        for aten in step.aten_ops
    ]
    return [first, *below]


def _size(nbytes: int) -> str:
    return f"{nbytes:,} bytes" if nbytes else ""


def _notes(steps: Sequence[Step], error: str | None) -> list[str]:
    """Return the lines below the table, on results that were never used and on an error that ended the run."""
    notes = [f"Step {step.number}, {step.title}: its result is never used." for step in steps if not step.used]
    if not steps:
        notes.append("No steps.")
    if error is not None:
        notes.append(f"Then the code raised {error}")
    return notes
