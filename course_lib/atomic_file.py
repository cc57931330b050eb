"""Write a file completely or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_text(path: Path, text: str, *, encoding: str = "utf-8", mode: int = 0o666) -> None:
    """Write a temporary file in the same folder, and rename it once it is on the disk.

    Args:
        path: path of the file; an existing file is replaced.
        text: its content; line ends are kept.
        encoding: its encoding.
        mode: its permissions, limited by the system's umask.

    Raises:
        OSError: it can't be written; the old file, if any, is then unchanged.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w", encoding=encoding, newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
