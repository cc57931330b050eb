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


def html_path(path: str | os.PathLike[str]) -> Path:
    """The path of a page to write.

    Raises:
        ValueError: It does not end in .html, is itself a folder, or its folder does not exist.
        TypeError: It is no path.
    """
    try:
        file = Path(path)
    except TypeError:
        raise TypeError(f"path must be the name of a file, got {path!r}: give one such as 'mine.html'.") from None
    if file.suffix not in (".html", ".htm"):
        raise ValueError(f"path must end in .html, got {str(path)!r}: a browser opens such a file.")
    if not file.parent.is_dir():
        raise ValueError(f"path is in the folder {str(file.parent)!r}, which does not exist: make it first.")
    if file.is_dir():
        raise ValueError(
            f"path is a folder, {str(path)!r}: give the name of a file, such as {str(file / 'mine.html')!r}."
        )
    return file
