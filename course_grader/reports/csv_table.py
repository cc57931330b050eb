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
_FORMULA = re.compile(r"(^|[;|\t\r\n])([^\S\t\r\n]*)(?=[=+\-@＝＋－＠])")


def write_table(path: Path, table: Sequence[Sequence[str]]) -> None:
    """Write a table completely or not at all, in UTF-8 with the byte order mark that spreadsheets look for."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([map(safe_cell, row) for row in table])
    write_text(path, text.getvalue(), encoding="utf-8-sig")


def read_table(path: Path) -> Table:
    """Read the rows of a CSV file with commas, semicolons or tabs.

    Raises:
        OSError: The file cannot be read.
        ValueError, csv.Error: It is not a CSV file in an encoding that spreadsheets write.
    """
    text = _decoded(path.read_bytes())
    if "\0" in text:
        raise ValueError("a null byte")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]


def read_own_table(path: Path, header: Sequence[str]) -> Table:
    """Read a table that the teacher writes: its first columns, which must have this header, or ValueError."""
    try:
        found, *rows = read_table(path)
        if [name.strip().lower() for name in found[: len(header)]] != list(header):
            raise ValueError(f"its header is {','.join(found)}")
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file with the header {','.join(header)}: {error}.") from None
    return [[cell.strip() for cell in (*row, *[""] * len(header))[: len(header)]] for row in rows]


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


def one_line(text: str) -> str:
    """Return an untrusted text on one line, with nothing hidden in it."""
    return visible(" ".join(text.split()))
