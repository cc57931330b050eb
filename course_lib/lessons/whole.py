"""A file is written whole or not at all."""

import os
import secrets
from pathlib import Path


def write_text(path: Path, text: str, *, encoding: str = "utf-8", mode: int = 0o666) -> None:
    """Write a file beside its place and put it there in one step, once it is on the disk.

    Args:
        path: of the file; what stands there is replaced.
        text: its lines, whose ends are kept as they are.
        encoding: of the file.
        mode: who may read and write it, as far as the system's own mask allows it.

    Raises:
        OSError: it can't be written; then the old file, or none, is still there.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w", encoding=encoding, newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
