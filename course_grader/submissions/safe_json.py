"""Parse the JSON of a file that claims to be a notebook within limits; recognise other files."""

from __future__ import annotations

import json
import re
from typing import Any

from .files_and_zips import Unreadable

MAX_VALUES = 5_000_000  # a list of a hundred million empty lists would fill the memory
MAX_DIGITS = 400  # of one integer

SAVE_AGAIN = "open the notebook, save it and hand the .ipynb file in again."

# A JSON string. It matches without its closing quote too, so that an unterminated string is not tried again and again.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_OTHER_KINDS = {  # how files begin that are often submitted in place of a notebook
    rb"%PDF": "a PDF",
    rb"PK\x03\x04": "a zip under another name",
    rb"version https://git-lfs": "a pointer of Git LFS, without the file itself",
    rb"\s*<": "a web page (HTML)",
    rb"\x89PNG|\xff\xd8\xff": "a picture",
    rb"\s*(?:#|import |from \w|def |class |@|%|\"\"\")": "Python code without a notebook around it",
}


def parse_notebook_json(content: bytes) -> dict[str, Any]:
    """Parse the bytes of a file whose JSON may have been written to do harm.

    Raises:
        Unreadable: The file is not a JSON object, or is so large or so deeply nested that parsing it would fill the
            memory.
    """
    content = content.removeprefix(b"\xef\xbb\xbf")
    if not content.strip():
        raise Unreadable("It is empty: save the notebook and hand it in again.")
    for beginning, kind in _OTHER_KINDS.items():
        if re.match(beginning, content):
            raise Unreadable(f"It is {kind}: hand in the notebook itself, the .ipynb file.")
    if _count_values(content) > MAX_VALUES and _count_values(_STRING.sub(b"", content)) > MAX_VALUES:
        raise Unreadable("It contains too many values: clear the outputs and hand it in again.")
    try:
        data = json.loads(content.decode("utf-8"), parse_int=_parse_integer)
    except UnicodeDecodeError:
        raise Unreadable(f"It is not UTF-8 text: {SAVE_AGAIN}") from None
    except json.JSONDecodeError as error:
        raise Unreadable(f"It is not a notebook: its JSON is broken at line {error.lineno}; {SAVE_AGAIN}") from None
    except (RecursionError, MemoryError):
        raise Unreadable("Its JSON is nested too deeply: clear the outputs and hand it in again.") from None
    if not isinstance(data, dict):
        raise Unreadable(f"It is JSON, but not a notebook: {SAVE_AGAIN}")
    return data


def _count_values(content: bytes) -> int:
    return sum(map(content.count, (b",", b"[", b"{")))


def _parse_integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise Unreadable(f"It contains a number of {len(digits)} digits: clear the outputs and hand it in again.")
    return int(digits)
