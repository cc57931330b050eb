"""Read and write CSV tables whose cells no spreadsheet takes for a formula."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from course_lib.atomic_file import write_text

from .rendering import visible

Table = list[list[str]]
_FORMULA = re.compile(r"(^|[;|\t\r\n])([^\S\t\r\n]*)(?=[=+\-@＝＋－＠])(?!-\Z)")  # "-" alone is no grade in Moodle


def write_table(path: Path, table: Sequence[Sequence[str]]) -> None:
    """Write a table completely or not at all, in UTF-8 with the byte order mark that spreadsheets look for."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([map(safe_cell, row) for row in table])
    write_text(path, text.getvalue(), encoding="utf-8-sig")


def read_table(path: Path) -> Table:
    """Read the header and the rows of a CSV file with commas, semicolons or tabs; each is as wide as the header.

    Raises:
        ValueError: It is not such a file in an encoding that spreadsheets write; the message goes on after its name.
    """
    try:
        text = _decoded(path.read_bytes())
        delimiter = max(",;\t", key=text.partition("\n")[0].count)
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    except FileNotFoundError:
        raise ValueError("isn't there") from None
    except OSError as error:
        raise ValueError(f"can't be opened ({error.strerror})") from None
    except (ValueError, csv.Error) as error:
        raise ValueError(f"is not a CSV file ({error})") from None
    if not rows or "\0" in text:
        raise ValueError("is not a CSV file (it has null bytes)" if rows else "is empty")
    width = len(rows[0])
    if wide := next((row for row in rows if any(cell.strip() for cell in row[width:])), None):
        raise ValueError(
            f"has more cells in the row of {wide[0]!r} than in its header: put a text with {delimiter!r} in quotes"
        )
    return [[*row, *[""] * width][:width] for row in rows]


def read_course_table(path: Path, header: Sequence[str], more: Sequence[str] = ()) -> Table:
    """Read a table that the teacher writes: the columns of this header, or ValueError, and some that may be missing."""
    try:
        columns, *rows = read_table(path)
    except ValueError as error:
        raise ValueError(f"{path} {error}. Its header has to be {','.join(header)}.") from None
    names = [name.strip().lower() for name in columns]
    if names[: len(header)] != list(header):
        raise ValueError(f"{path} has the header {','.join(columns)}: it has to be {','.join(header)}.")
    indices = [names.index(column) if column in names else None for column in (*header, *more)]
    return [["" if index is None else row[index].strip() for index in indices] for row in rows]


def _decoded(content: bytes) -> str:
    """Decode a text as spreadsheets write it: UTF-8, UTF-16 with its mark, or else Windows' own encoding."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252")


def safe_cell(text: str) -> str:
    """Return a text of which no spreadsheet makes a formula, whichever separator it splits at."""
    return _FORMULA.sub(r"\1'\2", text)


def single_line(text: str) -> str:
    """Return an untrusted text on one line, with nothing hidden in it."""
    return visible(" ".join(text.split()))
