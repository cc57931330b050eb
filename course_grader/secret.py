"""A secret that is made once in a folder of the teacher's, and read from then on."""

from __future__ import annotations

import secrets
from pathlib import Path

from course_lib.atomic_file import write_text


def kept_secret(path: Path) -> bytes:
    """Return the secret in a file; where there is none, make one that nobody else may read.

    Raises:
        ValueError: The file holds something else.
    """
    if not path.exists():
        write_text(path, secrets.token_hex(32), mode=0o600)
    try:
        return bytes.fromhex(path.read_text(encoding="ascii"))
    except ValueError:
        raise ValueError(f"{path} is not the secret that was made there: restore it, or remove it.") from None
