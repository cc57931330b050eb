"""The JSON of a file that calls itself a notebook, or a sentence that says what it is instead."""

from __future__ import annotations

import json
import re
from typing import Any

from course_lib.classroom.handed_in.unreadable import Unreadable

VALUES, DIGITS = 5_000_000, 400  # a list of a hundred million empty lists would fill the memory

_STRING = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL
)  # matches without its end, too: no second try
AGAIN = "open the notebook, save it and hand the .ipynb file in again."
_LOOKS = {  # what files begin with that are handed in as notebooks
    rb"%PDF": "a PDF",
    rb"PK\x03\x04": "a zip under another name",
    rb"version https://git-lfs": "a pointer of Git LFS, without the file itself",
    rb"\s*<": "a web page (HTML)",
    rb"\x89PNG|\xff\xd8\xff": "a picture",
    rb"\s*(?:#|import |from \w|def |class |@|%|\"\"\")": "Python code without a notebook around it",
}


def notebook_data(content: bytes) -> dict[str, Any]:
    """Read JSON that may have been made to do harm.

    Args:
        content: the file.

    Raises:
        Unreadable: it is no JSON object, or so large or so deep that reading it would fill the memory.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise Unreadable("It is empty: save the notebook and hand it in again.")
    for begins, what in _LOOKS.items():
        if re.match(begins, content):
            raise Unreadable(f"It is {what}: hand in the notebook itself, the .ipynb file.")
    if _values(content) > VALUES and _values(_STRING.sub(b"", content)) > VALUES:
        raise Unreadable("It holds too many values: clear the outputs and hand it in again.")
    try:
        data = json.loads(content.decode("utf-8"), parse_int=_number)
    except UnicodeDecodeError:
        raise Unreadable(f"It is no text in UTF-8: {AGAIN}") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"It is no notebook: its JSON is broken at line {error.lineno}; {AGAIN}") from None
    except (RecursionError, MemoryError):
        raise Unreadable("Its JSON is nested too deeply: clear the outputs and hand it in again.") from None
    if not isinstance(data, dict):
        raise Unreadable(f"It is JSON, but no notebook: {AGAIN}")
    return data


def _values(content: bytes) -> int:
    return sum(map(content.count, (b",", b"[", b"{")))


def _number(digits: str) -> int:
    if len(digits) > DIGITS:
        raise Unreadable(f"It holds a number of {len(digits)} digits: clear the outputs and hand it in again.")
    return int(digits)
